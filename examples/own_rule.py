"""Your own learning rule in ten lines: its infinite-width theory, and networks to hold it against.

python examples/own_rule.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

import widefield as wf


@dataclass(frozen=True)
class SignDFA(wf.rules.Rule):
    """Direct feedback alignment with feedback of one bit: every neuron hears only whether to go up or down."""

    feedback: ClassVar[wf.rules.Feedback] = wf.rules.Direct()

    def local(self, site: wf.rules.Site):
        return site.phi_dot * jnp.sign(site.signal)


def main(points: int = 6, steps: int = 40, samples: int = 2048, width: int = 1000) -> tuple[wf.Result, wf.Result]:
    problem = wf.Problem(
        data=wf.datasets.sphere(points, dimension=10, seed=1),
        network=wf.MLP(depth=2, activation="tanh"),
        rule=SignDFA(),
        richness=2.0,
        training=wf.Training(steps=steps, dt=0.1),
    )
    theory = wf.solve(problem, samples=samples)
    nets = wf.simulate(problem, width=width, seeds=4)
    print(f"{'time':>6} {'loss, theory':>20} {'loss, networks':>20} {'gradient cosine, layer 1':>26}")
    for step in range(0, steps + 1, max(steps // 4, 1)):
        loss = [f"{r['loss'].values[step]:.4f} ± {r['loss_se'].values[step]:.4f}" for r in (theory, nets)]
        cosine = theory["gradient_cosine"].values[step, 0]
        print(f"{theory['time'].values[step]:6.1f} {loss[0]:>20} {loss[1]:>20} {cosine:26.3f}")
    return theory, nets


if __name__ == "__main__":
    main()
