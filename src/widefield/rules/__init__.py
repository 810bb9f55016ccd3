"""Learning rules. `RULES` is the table of all of them, by the name a TOML file uses."""

from .dfa import DFA
from .fa import FA
from .feedback import Direct, Feedback, Silent, Weights
from .gd import GD
from .gln import GLN
from .hebb import Hebb
from .lookup import RULES, as_rule
from .rule import Gradient, Rule, Site

__all__ = [
    "DFA",
    "FA",
    "GD",
    "GLN",
    "RULES",
    "Direct",
    "Feedback",
    "Gradient",
    "Hebb",
    "Rule",
    "Silent",
    "Site",
    "Weights",
    "as_rule",
]
