"""Every figure and every claim of the paper, from one command."""

from .run import FIGURES, Reproduction, reproduce

__all__ = ["FIGURES", "Reproduction", "reproduce"]
