"""The whole question: data, network, learning rule, richness and training."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError, require
from ..rules.lookup import as_rule
from ..rules.promises import check_rule
from ..rules.rule import Rule
from .dataset import Dataset
from .fields import checked, convert_fields, frozen, instance_of, number, real
from .networks import Network, Wiring
from .training import Training


@frozen()
class Problem:
    """A complete training problem; every solver takes one.

    Args:
        data: the points that teach and test.
        network: an `MLP` or a `CNN`.
        rule: a rule, or its name ("gd", "fa", "dfa", "gln", "hebb", "module:Name").
        richness: γ₀; →0 is lazy, large is rich.
        training: how long, how fast and on what loss.
    """

    data: Dataset = checked(instance_of(Dataset, "a widefield.Dataset"))
    network: Network = checked(instance_of(Network, "a widefield.MLP or widefield.CNN"))
    rule: Rule = checked(converter=as_rule)
    richness: float = checked(number("a number above 0", above=0), converter=real)
    training: Training = checked(instance_of(Training, "a widefield.Training"))

    def __post_init__(self) -> None:
        convert_fields(self)
        data, network, training = self.data, self.network, self.training
        require(network.fits(data.x.shape), "x", f"of shape {data.x.shape}", network.takes)
        fits = training.batch_size <= data.points
        require(fits, "batch_size", training.batch_size, f"at most the number of points, {data.points}")
        wrong = training.loss.check(data.y_columns)
        if wrong:
            raise InputError(f"y does not fit the loss {training.loss.name}; allowed: {wrong}")
        check_rule(self.rule, network.depth)

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
