"""Everything that is done once before tiles are computed: single points, tables, definitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import require, require_number
from ...problem.arrays import real_array
from ...problem.networks import Network, Wiring
from ...problem.networks.layout import Layout
from ...rules.promises import check_rule
from ...rules.rule import Rule
from .closed_forms import CLOSED_FORMS
from .definition import prepare_definitions
from .inputs import covariances
from .points import Points, describe_points
from .recursion import Side, Tables, tile_kernels
from .tables import PairTable, build_table, rounded_range


@dataclass(frozen=True)
class Prepared:
    """What tiles are made from; `right` is `left` when one set of points meets itself."""

    network: Network
    rule: Rule
    wiring: Wiring
    outputs: frozenset[str]
    rows: tuple[np.ndarray, np.ndarray]  # inputs (batch, rows, channels) of the left and right points
    sides: tuple[Side, Side]
    tables: tuple[Tables, ...]
    one_set: bool

    @property
    def symmetric(self) -> bool:
        """Whether the lower triangle is the transpose of the upper one."""
        return self.one_set and all(table.definition is None for table in self.tables)

    @property
    def counts(self) -> tuple[int, int]:
        a = self._rows_per_point
        return self.rows[0].shape[1] // a, self.rows[1].shape[1] // a

    @property
    def _rows_per_point(self) -> int:
        return self.wiring.layout.positions if self.wiring.layout.pooled else 1

    def _indices(self, start: int, size: int, side: int) -> np.ndarray:
        """Rows of `size` points from `start`; past the end the last point stands in, so that shapes stay the same."""
        points = np.minimum(np.arange(start, start + size), self.counts[side] - 1)
        a = self._rows_per_point
        return (points[:, None] * a + np.arange(a)).ravel()

    def tile(self, start: tuple[int, int], size: tuple[int, int]) -> dict[str, np.ndarray]:
        """Kernels of the points start[0]… against start[1]…, cropped to the points there are."""
        index = [self._indices(start[side], size[side], side) for side in (0, 1)]
        left, right = (rows[:, i] for rows, i in zip(self.rows, index, strict=True))
        same = index[0][:, None] == index[1] if self.one_set else np.zeros((len(index[0]), len(index[1])), bool)
        same = np.broadcast_to(same, (len(left), *same.shape))
        covariance, same = covariances(left, right, same, refine=not self.wiring.layout.grid)
        sides = [_take(side, i) for side, i in zip(self.sides, index, strict=True)]
        kernels = tile_kernels(
            covariance, same, *sides, self.tables,
            network=self.network, rule=self.rule, wiring=self.wiring, outputs=self.outputs,
        )  # fmt: skip
        kept = [min(size[side], self.counts[side] - start[side]) for side in (0, 1)]
        return {name: _crop(np.asarray(value), name, kept) for name, value in jax.device_get(kernels).items()}


def _crop(value: np.ndarray, name: str, kept: list[int]) -> np.ndarray:
    return value[: kept[0], : kept[1]] if name == "entk" else value[:, : kept[0], : kept[1]]


def _take(side: Side, index: np.ndarray) -> Side:
    """Some rows of a side."""
    points = Points(*(column[:, :, index] for column in side.points))
    chosen = (Tables(*(None if b is None else b[:, index] for b in bases)) for bases in side.bases)
    return Side(points, tuple(chosen))


def _average_tables(
    network: Network, rule: Rule, points: tuple[Points, Points], accuracy: float
) -> list[tuple[PairTable | None, PairTable | None]]:
    """Tables of Φ and Φ̇ per layer, where there is no closed form."""
    activation = network.activation
    name = f"activation {activation.name}"
    found: list[tuple[PairTable | None, PairTable | None]] = []
    for index in range(network.depth):
        if activation in CLOSED_FORMS:
            found.append((None, None))
            continue
        pivots = np.concatenate([p.pivot[index].ravel() for p in points])
        low, high = rounded_range(float(pivots.min()), float(pivots.max()))
        phi = None if rule.gated else build_table(activation.phi, low, high, accuracy, name)[0]
        found.append((phi, build_table(activation.phi_dot, low, high, accuracy, name)[0]))
    return found


def _basis(table: PairTable | None, points: Points, index: int) -> Any:
    return None if table is None else table.basis(points.pivot[index])


def _per_column(argument: str, value: object, right: np.ndarray, layout: Layout) -> np.ndarray:
    """One number per right point, repeated over its positions, (batch, rows); NaN stands for what is not given."""
    numbers = np.full(len(right), np.nan) if value is None else real_array(argument, value)
    require(numbers.shape == (len(right),), argument, f"of shape {numbers.shape}", f"shape ({len(right)},)")
    if layout.pooled:
        return np.repeat(numbers, layout.positions)[None]
    return np.broadcast_to(numbers, (layout.positions, len(right)))


def check_points(argument: str, x: object, network: Network) -> np.ndarray:
    array = real_array(argument, x)
    fits = network.fits(array.shape) and 0 not in array.shape
    require(fits, argument, f"of shape {array.shape}", network.takes)
    return array


def check_static_feedback(rule: Rule, depth: int) -> None:
    """Refuse feedback whose correlation with W changes without learning."""
    for one in rule.layers(depth):
        require(one.feedback.static, "rule", one, "in the lazy limit: rules whose feedback moves only by learning")


def check_arguments(
    x: object, network: Network, rule: Rule, x2: object | None, accuracy: float
) -> tuple[np.ndarray, np.ndarray]:
    """Points of the rows and of the columns, or an error before any work."""
    allowed = "a widefield.MLP, widefield.CNN or widefield.RNN"
    require(isinstance(network, Network), "network", type(network).__name__, allowed)
    check_rule(rule, network.depth)
    check_static_feedback(rule, network.depth)
    require_number("accuracy", accuracy, "a number above 0, up to 0.1", above=0, at_most=0.1)
    left = check_points("x", x, network)
    right = left if x2 is None else check_points("x2", x2, network)
    require(left.shape[1:] == right.shape[1:], "x2", f"of shape {right.shape}", f"points of shape {left.shape[1:]}")
    return left, right


def prepare(
    x: object, network: Network, rule: Rule, x2: object | None, outputs: frozenset[str],
    error: object = None, target: object = None, accuracy: float = 1e-8,
) -> Prepared:  # fmt: skip
    """Check the arguments and do all the work that does not grow with the number of pairs."""
    left, right = check_arguments(x, network, rule, x2, accuracy)
    wiring = network.wiring(left.shape)
    layout = wiring.layout
    whole = all(stage.gain == 1 for stage in wiring.stages)
    require(whole, "network", network, "a leak of 1 in the lazy limit of a single frame")
    columns = [_per_column(n, v, right, layout) for n, v in (("error", error), ("target", target))]
    rows = layout.rows(network.blocks(left)[0]), layout.rows(network.blocks(right)[0])
    first = describe_points(rows[0], network, rule, wiring, accuracy)
    second = first if x2 is None else describe_points(rows[1], network, rule, wiring, accuracy)
    definitions = prepare_definitions(network, rule, wiring, first, second, columns[0], columns[1], accuracy)
    tables, bases = [], ([], [])
    for index, (phi, phi_dot) in enumerate(_average_tables(network, rule, (first, second), accuracy)):
        definition, combinations = definitions[index] or (None, None)
        kinds = phi, phi_dot, definition
        tables.append(Tables(*(None if table is None else jnp.asarray(table.coefficients) for table in kinds)))
        bases[0].append(Tables(*(_basis(table, first, index) for table in kinds)))
        bases[1].append(Tables(_basis(phi, second, index), _basis(phi_dot, second, index), combinations))  # type: ignore[arg-type]
    sides = Side(first, tuple(bases[0])), Side(second, tuple(bases[1]))
    return Prepared(network, rule, wiring, outputs, rows, sides, tuple(tables), x2 is None)
