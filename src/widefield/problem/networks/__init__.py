"""Architectures. `NETWORKS` is the table of all of them, by the name a TOML file uses."""

from .cnn import CNN
from .mlp import MLP
from .network import Network
from .rnn import RNN
from .structure import RankOne
from .wiring import Stage, Wiring

NETWORKS: dict[str, type[Network]] = {"mlp": MLP, "cnn": CNN, "rnn": RNN}

__all__ = ["CNN", "MLP", "NETWORKS", "RNN", "Network", "RankOne", "Stage", "Wiring"]
