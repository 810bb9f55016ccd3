"""The whole question: data, network, learning rule, richness and training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

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
        network: an `MLP`, a `CNN` or an `RNN`.
        rule: a rule, or its name ("gd", "fa", "dfa", "gln", "hebb", "module:Name").
        richness: γ₀; →0 is lazy, large is rich.
        training: how long, how fast and on what loss.
    """

    data: Dataset = checked(instance_of(Dataset, "a widefield.Dataset"))
    network: Network = checked(instance_of(Network, "a widefield.MLP, widefield.CNN or widefield.RNN"))
    rule: Rule = checked(converter=as_rule)
    richness: float = checked(number("a number above 0", above=0), converter=real)
    training: Training = checked(instance_of(Training, "a widefield.Training"))

    def __post_init__(self) -> None:
        convert_fields(self)
        data, network, training = self.data, self.network, self.training
        require(network.fits(data.x.shape), "x", f"of shape {data.x.shape}", network.takes)
        fits = training.batch_size <= data.points
        require(fits, "batch_size", training.batch_size, f"at most the number of points, {data.points}")
        self._check_targets()
        network.check_sizes(data.x.shape[-1], self.outputs)
        targets = self.targets.reshape(-1, self.outputs)
        wrong = training.loss.check(targets[~np.isnan(targets[:, 0])])
        if wrong:
            raise InputError(f"y does not fit the loss {training.loss.name}; allowed: {wrong}")
        check_rule(self.rule, network.depth)
        read = {stage.population for stage in self.wiring.stages if stage.read is not None}
        for layer, rule in enumerate(self.layer_rules):
            if rule.feedback.readout and layer not in read:
                raise InputError(
                    f"rule is {rule!r} in hidden layer {layer + 1}, whose neurons have no readout weights to be taught "
                    "by; allowed there: other rules"
                )
            if rule.feedback.entrywise is not None and self.wiring.matrices and not self.wiring.start:
                raise InputError(f"gain is 0 under rule {rule!r}: weights that are 0 have no sign; allowed: above 0")

    def _check_targets(self) -> None:
        data, frames = self.data, self.network.target_frames(self.data.x.shape)
        shape, found = f"of shape {data.y.shape}", data.y.shape[1:]
        if frames is None:
            require(data.y.ndim <= 2, "y", shape, "shape (P,) or (P, C) for this network")
        else:
            good = data.y.ndim in (2, 3) and found[0] == frames
            require(good, "y", shape, f"shape (P, T) or (P, T, C) with T = {frames} frames, as x has them")
        for name, y in (("y", data.y), ("y_test", data.y_test)):
            if y is None:
                continue
            missing = np.isnan(y.reshape(len(y), frames or 1, -1))
            where = np.argwhere(np.isnan(y))
            place = f"nan at index {tuple(int(i) for i in where[0])}" if len(where) else ""
            require(frames is not None or not missing.any(), name, place, "finite numbers for this network")
            whole = np.all(missing.all(-1) == missing.any(-1))
            require(bool(whole), name, place, "NaN in all outputs of a frame without a target, or in none")
            require(not missing.all(), name, "nan everywhere", "a target at one frame or more")

    @property
    def outputs(self) -> int:
        """C."""
        framed = self.network.target_frames(self.data.x.shape) is not None
        return self.data.y.shape[-1] if self.data.y.ndim == 2 + framed else 1

    @property
    def targets(self) -> np.ndarray:
        """y as (P, reads, C); NaN where there is no target."""
        return self.data.y.reshape(self.data.points, -1, self.outputs)

    @property
    def online(self) -> bool:
        """Whether a recorded step passes its batch in place of all points."""
        return self.training.evaluate == "batch"

    @property
    def recorded_points(self) -> int:
        """Training points of a recorded step."""
        return self.training.batch_size if self.online else self.data.points

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
        """Read a problem from a TOML file.

        Args:
            path: the file, or TOML text with a line break in it.
        """
        from .toml import read_problem

        return read_problem(path)

    def to_toml(self, path: str | Path | None = None) -> str:
        """The problem as TOML text, data included.

        Args:
            path: a file to which the text is written as well.
        """
        from .toml import write_problem

        return write_problem(self, path)
