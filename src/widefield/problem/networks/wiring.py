"""How a network is wired: what one pass asks, of which matrix, in which order."""

from __future__ import annotations

from dataclasses import dataclass

from .layout import Layout
from .structure import RankOne


@dataclass(frozen=True)
class Stage:
    """One step of a forward pass: the preactivations of a population of neurons, from those of the stage before.

        h = carry·h(before) + gain·[W φ(h(before))/√N + U x/√D]

    Attributes:
        population: whose neurons; a population that comes again has the same learning rule, readout and Gaussians.
        matrix: which hidden matrix W is asked with the outputs of the stage before; None: none is.
        input: which block of inputs drives the stage; None: none does.
        read: which block of outputs is read here; None: none is.
        taught: whose error reaches the stage directly, as in direct feedback: a block of outputs.
    """

    population: int
    matrix: int | None = None
    input: int | None = None
    carry: float = 0.0
    gain: float = 1.0
    read: int | None = None
    taught: int = 0


@dataclass(frozen=True)
class Wiring:
    """Stages in their order, and what a row of a question is (`layout`).

    Entries of hidden matrices are N(0, start²) at the start, those of fixed feedback matrices too. `structure` is added
    to the only matrix of a recurrent network.
    """

    stages: tuple[Stage, ...]
    layout: Layout
    start: float = 1.0
    structure: tuple[RankOne, ...] = ()

    @property
    def populations(self) -> int:
        return 1 + max(stage.population for stage in self.stages)

    @property
    def matrices(self) -> int:
        """Number of hidden matrices."""
        return len({stage.matrix for stage in self.stages} - {None})

    @property
    def blocks(self) -> int:
        """Number of blocks of inputs."""
        return len({stage.input for stage in self.stages} - {None})

    @property
    def reads(self) -> int:
        """Number of blocks of outputs."""
        return len({stage.read for stage in self.stages} - {None})

    @property
    def feed_forward(self) -> bool:
        """Whether every stage has neurons and weights of its own."""
        return self.populations == len(self.stages)

    @property
    def repeats(self) -> bool:
        """Whether all stages after the first are alike but for their inputs and outputs, so that one program serves."""
        alike = {(stage.population, stage.matrix, stage.carry, stage.gain) for stage in self.stages[1:]}
        inputs = [stage.input for stage in self.stages] == list(range(len(self.stages)))
        reads = {stage.read is None for stage in self.stages[:-1]}
        return len(self.stages) > 2 and self.populations == len(alike) == len(reads) == 1 and inputs

    @property
    def crosses(self) -> bool:
        """Whether neuron i of one population meets neuron i of another."""
        pairs = zip(self.stages, self.stages[1:], strict=False)
        return any(after.carry != 0 and before.population != after.population for before, after in pairs)

    def asks(self, matrix: int) -> list[int]:
        """Stages that ask `matrix`."""
        return [k for k, stage in enumerate(self.stages) if stage.matrix == matrix]

    def ends(self, matrix: int) -> tuple[int, int]:
        """Populations on the in and on the out side of `matrix`."""
        first = self.asks(matrix)[0]
        return self.stages[first - 1].population, self.stages[first].population


def feed_forward(depth: int, layout: Layout, skip: float = 0.0) -> Wiring:
    """Layers 1..depth, each with a matrix of its own, the last one read; `skip` carries h^ℓ on to h^{ℓ+1}."""
    first = Stage(population=0, input=0, read=0 if depth == 1 else None)
    inner = (Stage(k, matrix=k - 1, carry=skip, read=0 if k == depth - 1 else None) for k in range(1, depth))
    return Wiring((first, *inner), layout)
