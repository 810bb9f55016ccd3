"""Finite width: the leading 1/N covariance of the kernels at initialisation (App. H)."""

from .covariance import KernelCovariance, kernel_covariance

__all__ = ["KernelCovariance", "kernel_covariance"]
