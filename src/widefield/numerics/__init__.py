"""Numerics that several solvers share: quadrature, quasi-random numbers, memory."""
