"""A network that this library did not train, laid on theory: plain NumPy, feedback alignment, recorded as one would.

python examples/not_our_network.py
"""

from __future__ import annotations

import numpy as np

import widefield as wf

STEPS = [0, 10, 20, 40]


def train(x: np.ndarray, y: np.ndarray, width: int, richness: float, dt: float, seed: int) -> np.ndarray:
    """Two hidden tanh layers taught through fixed random weights; activity (stage, layer, stimulus, neuron)."""
    rng = np.random.default_rng(seed)
    first, hidden, last = (
        rng.standard_normal((width, x.shape[1])),
        rng.standard_normal((width, width)),
        rng.standard_normal(width),
    )
    back_hidden, back_last = rng.standard_normal((width, width)), rng.standard_normal(width)
    recorded, start = [], None
    for step in range(STEPS[-1] + 1):
        one = np.tanh(first @ x.T / np.sqrt(x.shape[1]))
        two = np.tanh(hidden @ one / np.sqrt(width))
        f = last @ two / (richness * width)
        start = f if start is None else start
        if step in STEPS:
            recorded.append([one.T, two.T])
        error = y - (f - start)
        signal_two = (1 - two**2) * back_last[:, None]
        signal_one = (1 - one**2) * (back_hidden.T @ signal_two) / np.sqrt(width)
        last = last + dt * richness * two @ error
        hidden = hidden + dt * richness / np.sqrt(width) * (signal_two * error) @ one.T
        first = first + dt * richness / np.sqrt(x.shape[1]) * (signal_one * error) @ x
    return np.array(recorded)


def main(width: int = 500, samples: int = 1024, networks: int = 8) -> wf.Identification:
    data = wf.datasets.sphere(6, dimension=10, seed=3)
    problems = {
        name: wf.Problem(data, wf.MLP(2, "tanh"), rule, 1.0, wf.Training(steps=STEPS[-1], dt=0.05))
        for name, rule in {"gradient descent": "gd", "feedback alignment": wf.rules.FA(0.0), "Hebb": "hebb"}.items()
    }
    activity = train(data.x, data.y, width, richness=1.0, dt=0.05, seed=7)
    seen = wf.observe(activity[..., :100], STEPS)  # a hundred of its neurons
    print(seen.summary(), "\n")
    found = wf.identify(
        seen, problems, width=width, networks=networks, time_scale=(0.67, 1.5), samples=samples, seeds=4, progress=False
    )
    print(found.summary(), "\n")
    # All neurons against infinite width; one network has no standard error, so the deviations are plain numbers.
    problem = problems["feedback alignment"]
    mine = wf.observe(activity, STEPS).result(problem)
    print(wf.compare(mine, wf.solve(problem, samples=samples, seeds=4, every=10, record=["phi"], progress=False)))
    return found


if __name__ == "__main__":
    main()
