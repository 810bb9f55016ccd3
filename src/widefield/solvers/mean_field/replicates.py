"""Independent replicates of a problem at infinite width."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np

from ...engine.devices import Device
from ...engine.interpretation import Interpretation, Room, reserved_rows
from ...engine.prepare import prepare
from ...engine.run import Outcome, Recording, Report, Run, Trainer
from ...engine.sources import Pool
from ...engine.state import State
from ...engine.two_time import two_time as two_time_objects
from ...numerics.sobol import MOST_DIRECTIONS, quasi_normals
from ...problem.problem import Problem

MANY = 2**30  # particles, where their number is not to matter


@dataclass(frozen=True)
class Replicates:
    """Everything that replicates of one problem share; `shift` tells apart the runs of one seed that must differ."""

    problem: Problem
    recording: Recording
    precision: str
    seed: int
    report: Report
    trainer: Trainer | None = None
    slack: float = 1.0  # how much larger the tolerance of questions backward is
    devices: tuple[Device, ...] = ()

    def run(self, samples: int, numbers: range, tolerance: float, room: Room | None = None, shift: int = 0) -> Outcome:
        """Replicates of these numbers with `samples` particles, to their end."""
        outcome = self.prepared(samples, numbers, tolerance, shift).to_the_end(room)
        info = {"samples": samples} | {name: value for name, value in outcome.info.items() if name != "width"}
        return Outcome(outcome.arrays, info, outcome.room)

    def prepared(self, samples: int, numbers: range, tolerance: float, shift: int = 0) -> Run:
        """Replicates before their first step; a replicate depends on its own number only."""
        run = self._without_numbers(samples, tolerance)
        spec, inputs = run.spec, run.inputs
        keys = [_key(self.seed, shift, number) for number in numbers]
        most = max(reserved_rows(spec, layer) for layer in range(spec.populations))
        directions = min(inputs.x.shape[-1] + 4 * inputs.x.shape[1] + most, MOST_DIRECTIONS)
        quasi = quasi_normals(
            2 * self.seed + shift, numbers, spec.populations, directions, samples, self.precision,
            joint=spec.wiring.crosses,
        )  # fmt: skip
        pools = [
            [Pool(rows, (2 * self.seed + shift, number, layer)) for layer, rows in enumerate(populations)]
            for number, populations in zip(numbers, quasi, strict=True)
        ]
        return replace(run, keys=keys, pools=pools)

    def directions(self, tolerance: float) -> int:
        """Gaussian directions that a population is likely to need, whatever the number of particles."""
        return self._without_numbers(MANY, tolerance).expected_directions()

    def _without_numbers(self, samples: int, tolerance: float) -> Run:
        """The run of no replicates."""
        spec, inputs = prepare(self.problem, self.recording, self.precision, tolerance, self.slack)
        kind = Interpretation("mean_field", samples, dtype=self.precision)
        return Run(
            spec, inputs, kind, self.recording, self.problem.training.steps, (), (), self.report, self._finish,
            self.trainer, self.devices,
        )  # fmt: skip

    def _finish(self, state: State, records: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        fields = records.pop("fields", None)
        if fields is None:
            return records
        responses = self.recording.fields_every == 1
        return records | two_time_objects(self.problem.layer_rules, state, fields, responses)


def _key(*numbers: int) -> jax.Array:
    """A random key made by NumPy, which compiles nothing."""
    bits = np.random.SeedSequence(numbers).generate_state(2, np.uint32)
    return jax.random.wrap_key_data(jax.device_put(bits), impl="threefry2x32")
