"""How weights remember: every optimiser of `Training` as one kernel in time."""

from __future__ import annotations

import numpy as np

from ...problem.training import Training


def weight_memory(training: Training) -> tuple[np.ndarray, np.ndarray]:
    """d (T+1,) and k (T+1, T+1) with W(t) = d(t)W(0) + Σ_{s<t} k(t,s)·gradient term(s).

    Plain descent has d = 1, k = dt; weight decay d(t) = (1−dt·λ)^t; momentum k(t,s) = dt[1 − (1−dt/τ)^{t−s}].
    """
    times, dt = training.steps + 1, training.dt
    kept = 1.0 - dt * training.weight_decay
    memory = np.zeros((times, times))
    change = np.zeros(times)  # coefficients of the gradient terms in W(t+1) − kept·W(t)
    for t in range(times - 1):
        if training.momentum > 0:
            share = dt / training.momentum
            change *= 1.0 - share
            change[t] = dt * share
        else:
            change[:] = 0.0
            change[t] = dt
            if training.integrator == "ab2" and t > 0:
                change[t], change[t - 1] = 1.5 * dt, -0.5 * dt
        memory[t + 1] = kept * memory[t] + change
    return kept ** np.arange(times), memory
