"""What a matrix of questions and answers has learnt along what its rows asked have left of the rows that teach."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .wide_matrix import Rates

LARGEST_SHARE = 2.0  # of what was learnt along a row, when it is carried over to the next one
ROUNDING = 64  # in units of the last place: below this share of its square a row has nothing left


class Rest(eqx.Module):
    """What was learnt along what the rows asked have left of the rows that teach.

    Row k of `rows` (slots, in) is the last row of slot k (a point, at one frame and position), and `known`
    (slots, room) are its coordinates on the rows asked; ε_k is what these leave of it. Besides what is known of W(t) it
    has learnt Σ_k current_k ⊗ ε_k/N, and what follows W and the velocity accordingly. New directions take their part of
    this along; answers leave it out, for what one row below the tolerance teaches another one is of the order of its
    square.
    """

    rows: Array
    known: Array
    current: Array
    mirror: Array | None
    velocity: Array | None

    @property
    def learnt(self) -> list[Array]:
        return [part for part in (self.current, self.mirror, self.velocity) if part is not None]

    def extended(self, along: Array, at: Array) -> Rest:
        """With the coordinates `along` (slots, k) on new rows asked, number `at` and the next ones."""
        return replace(self, known=jax.lax.dynamic_update_slice(self.known, along, (jnp.zeros_like(at), at)))

    def taught(self, rows: Array, known: Array, teaching: Array, rates: Rates, width: int) -> Rest:
        """After a step that teaches with `rows` (slots, in) of the coordinates `known`.

        What was learnt along the ε before is carried over to the multiples of the new ones that are nearest; Pythagoras
        gives their overlaps, so that no ε is ever computed. `teaching` has a leading axis: that of this step, then that
        of the step before where the integrator looks back. Nothing changes where the rate `move` is 0.
        """

        def teach(before: Rest) -> Rest:
            squares = jnp.sum(rows**2, axis=1)
            size = squares - width * jnp.sum(known**2, axis=1)
            overlap = jnp.sum(before.rows * rows, axis=1) - width * jnp.sum(before.known * known, axis=1)
            least = ROUNDING * jnp.finfo(rows.dtype).eps * squares
            nearest = overlap / jnp.where(squares > 0, jnp.maximum(size, least), 1.0)
            share = jnp.clip(nearest, -LARGEST_SHARE, LARGEST_SHARE)[:, None]
            now = teaching[0] if len(teaching) == 1 else teaching[0] + share * teaching[1]
            carried = jax.tree.map(lambda part: share * part, before)
            return replace(carried, rows=rows, known=known).moved(now, rates)

        # Rows that are inputs of a branch are computed once; a loop over neurons would repeat what they are made of.
        return jax.lax.cond(rates.move > 0, teach, lambda before: before, self)

    def moved(self, taught: Array | None, rates: Rates) -> Rest:
        """After a step at these rates in which its rows have taught so; None: nothing."""
        mirror, velocity, change = self.mirror, self.velocity, taught
        if mirror is not None:
            mirror = mirror + rates.follow * (self.current - mirror)
        if velocity is not None:
            velocity = rates.keep * velocity
            velocity = change = velocity if taught is None else velocity + taught
        current = rates.decay * self.current
        current = current if change is None else current + rates.move * change
        return replace(self, current=current, mirror=mirror, velocity=velocity)

    def of_slots(self, slots: Array, first: Array, asked: Array, width: int) -> Rest:
        """That of some slots, which may come more than once; what they have learnt counts where `first` is 1.

        Rows asked while a slot waited are not among its coordinates, which are computed again.
        """
        some = jax.tree.map(lambda part: first[:, None].astype(part.dtype) * part[slots], self)
        rows = self.rows[slots]
        return replace(some, rows=rows, known=rows @ asked.T / width)

    def with_slots(self, slots: Array, some: Rest) -> Rest:
        """The inverse: that of all, with `some` in place of those of `slots`."""
        whole = jax.tree.map(lambda old, new: old.at[slots].set(0.0).at[slots].add(new), self, some)
        return replace(whole, rows=self.rows.at[slots].set(some.rows), known=self.known.at[slots].set(some.known))


def make_rest(slots: int, inside: int, out: int, room: int, dtype, mirrored: bool, velocity: bool) -> Rest:
    """That of `slots` rows that have taught nothing yet."""
    learnt = jnp.zeros((slots, out), dtype)
    return Rest(
        jnp.zeros((slots, inside), dtype),
        jnp.zeros((slots, room), dtype),
        learnt,
        learnt if mirrored else None,
        learnt if velocity else None,
    )
