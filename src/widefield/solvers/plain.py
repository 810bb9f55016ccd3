"""What solvers of closed equations can take: the networks and feedbacks that their equations were derived for."""

from __future__ import annotations

from ..errors import InputError, require
from ..problem.problem import Problem


def require_plain(problem: Problem, where: str) -> None:
    """Raise an `InputError` unless `problem` is a plain MLP whose feedback is ρW(0) + √(1−ρ²)W̃, direct or none."""
    wiring, network = problem.wiring, problem.network
    odd = any(stage.carry or stage.gain != 1 for stage in wiring.stages)
    if not wiring.feed_forward or wiring.layout.grid or odd:
        raise InputError(f"network is {network!r}; allowed with {where}: an MLP without residual connections")
    for rule in problem.layer_rules:
        allowed = f"with {where}: rules with feedback Weights, Direct or Silent; use method 'mean_field' for this one"
        require(rule.feedback.closed, "rule", rule, allowed)
