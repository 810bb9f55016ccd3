"""The whole question: data, network, learning rule, richness and training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, require, require_number
from ..rules.lookup import as_rule
from ..rules.promises import check_rule
from ..rules.rule import Rule
from .dataset import Dataset
from .networks import Network, Wiring
from .training import Training


@dataclass(frozen=True)
class Problem:
    """What a very wide network learns is asked of this: every solver takes a `Problem`.

    Args:
        rule: a rule, or its name ("gd", "fa", "dfa", "gln", "hebb", "module:Name").
        richness: γ₀; →0 is lazy, large is rich.
    """

    data: Dataset
    network: Network
    rule: Rule
    richness: float
    training: Training

    def __init__(
        self, data: Dataset, network: Network, rule: str | Rule | type[Rule], richness: float, training: Training
    ):
        require(isinstance(data, Dataset), "data", type(data).__name__, "a widefield.Dataset")
        require(isinstance(network, Network), "network", type(network).__name__, "a widefield.MLP or widefield.CNN")
        require_number("richness", richness, "a number above 0", above=0)
        require(isinstance(training, Training), "training", type(training).__name__, "a widefield.Training")
        require(network.fits(data.x.shape), "x", f"of shape {data.x.shape}", network.takes)
        fits = training.batch_size <= data.points
        require(fits, "batch_size", training.batch_size, f"at most the number of points, {data.points}")
        wrong = training.loss.check(data.y_columns)
        if wrong:
            raise InputError(f"y does not fit the loss {training.loss.name}; allowed: {wrong}")
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "network", network)
        rule = as_rule(rule)
        check_rule(rule, network.depth)
        object.__setattr__(self, "rule", rule)
        object.__setattr__(self, "richness", float(richness))
        object.__setattr__(self, "training", training)

    @property
    def layer_rules(self) -> tuple[Rule, ...]:
        """The learning rules of hidden layers 1..L."""
        return self.rule.layers(self.network.depth)

    @property
    def wiring(self) -> Wiring:
        """How the network is wired for these inputs."""
        return self.network.wiring(self.data.x.shape)

    @staticmethod
    def from_toml(path: str | Path) -> Problem:
        """Read a problem from a TOML file, or from TOML text that contains a line break."""
        from .toml import read_problem

        return read_problem(path)

    def to_toml(self, path: str | Path | None = None) -> str:
        """The problem as TOML text, data included; also written to `path` if there is one."""
        from .toml import write_problem

        return write_problem(self, path)
