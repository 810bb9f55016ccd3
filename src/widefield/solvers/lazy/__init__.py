"""Lazy limits (γ₀ → 0): static kernels of every rule and what they predict."""

from .angles import angle_kernel
from .kernels import LazyKernels, kernels
from .predict import predict
from .solve import solve_lazy

__all__ = ["LazyKernels", "angle_kernel", "kernels", "predict", "solve_lazy"]
