"""The whole question: data, network, learning rule, richness and training."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError, require
from ..rules.lookup import as_rule
from ..rules.rule import Rule
from .dataset import Dataset
from .fields import checked, convert_fields, frozen, instance_of, number, real
from .networks import CNN, MLP, Network
from .training import Training


@frozen()
class Problem:
    """A complete training problem; every solver takes one.

    Args:
        network: an `MLP` or a `CNN`.
        rule: a rule, or its name ("gd", "fa", "dfa", "gln", "hebb", "module:Name").
        richness: γ₀; →0 is lazy, large is rich.
    """

    data: Dataset = checked(instance_of(Dataset, "a widefield.Dataset"))
    network: Network = checked(instance_of((MLP, CNN), "a widefield.MLP or widefield.CNN"))
    rule: Rule = checked(converter=as_rule)
    richness: float = checked(number("a number above 0", above=0), converter=real)
    training: Training = checked(instance_of(Training, "a widefield.Training"))

    def __post_init__(self) -> None:
        convert_fields(self)
        data, network, training = self.data, self.network, self.training
        if isinstance(network, MLP):
            require(data.x.ndim == 2, "x", f"of shape {data.x.shape}", "shape (P, D) for an MLP")
        else:
            require(
                data.x.ndim in (3, 4),
                "x",
                f"of shape {data.x.shape}",
                "(P, positions, channels) or (P, height, width, channels) for a CNN",
            )
        fits = training.batch_size <= data.points
        require(fits, "batch_size", training.batch_size, f"at most the number of points, {data.points}")
        wrong = training.loss.check(data.y_columns)
        if wrong:
            raise InputError(f"y does not fit the loss {training.loss.name}; allowed: {wrong}")
        self.rule.at(network.depth, network.depth)  # a mixture says here whether it has a rule for every layer

    @staticmethod
    def from_toml(path: str | Path) -> Problem:
        """Read a problem from a TOML file, or from TOML text that contains a line break."""
        from .toml import read_problem

        return read_problem(path)

    def to_toml(self, path: str | Path | None = None) -> str:
        """The problem as TOML text, data included; also written to `path` if there is one."""
        from .toml import write_problem

        return write_problem(self, path)
