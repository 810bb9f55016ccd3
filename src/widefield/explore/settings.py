"""What the sliders say, as a problem, a file and lines of Python."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import widefield as wf

from ..rules.lookup import RULES

DATA = ("random_gaussian", "sphere", "teacher_student")
ACTIVATIONS = ("relu", "tanh", "erf", "linear")
# Without the rules that ask for a list of others, or for a recurrent network.
RULE_NAMES = tuple(name for name in RULES if name not in ("mixture", "eprop"))
RICHNESS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
STEP_SIZES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
# Small, so that a slider answers within seconds; the error bands show what that costs.
OPTIONS = {"samples": 512, "seeds": 4, "tolerance": 0.1}


@dataclass(frozen=True)
class Settings:
    """A problem in the numbers of the sliders; the defaults are a small relative of the paper's Figure 1."""

    data: str = "random_gaussian"
    points: int = 6
    dimension: int = 20
    data_seed: int = 0
    depth: int = 1
    activation: str = "relu"
    rule: str = "gd"
    rho: float = 0.5
    richness: float = 1.0
    dt: float = 0.05
    steps: int = 40

    def problem(self) -> wf.Problem:
        data = wf.datasets.GENERATORS[self.data](self.points, self.dimension, self.data_seed)
        network = wf.MLP(depth=self.depth, activation=self.activation)
        training = wf.Training(steps=self.steps, dt=self.dt)
        return wf.Problem(data, network, RULES[self.rule](**self._parameters()), self.richness, training)

    def python(self) -> str:
        """Lines that make the same result."""
        parameters = ", ".join(f"{name}={value}" for name, value in self._parameters().items())
        options = ", ".join(f"{name}={value}" for name, value in OPTIONS.items())
        return (
            "import widefield as wf\n\n"
            "problem = wf.Problem(\n"
            f"    data=wf.datasets.{self.data}({self.points}, {self.dimension}, seed={self.data_seed}),\n"
            f'    network=wf.MLP(depth={self.depth}, activation="{self.activation}"),\n'
            f"    rule=wf.rules.{RULES[self.rule].__name__}({parameters}),\n"
            f"    richness={self.richness},\n"
            f"    training=wf.Training(steps={self.steps}, dt={self.dt}),\n"
            ")\n"
            f"theory = wf.solve(problem, {options})\n"
        )

    def _parameters(self) -> dict[str, float]:
        return {"rho": self.rho} if has_rho(self.rule) else {}


def has_rho(rule: str) -> bool:
    return any(field.name == "rho" for field in dataclasses.fields(RULES[rule]))
