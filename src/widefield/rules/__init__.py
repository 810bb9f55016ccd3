"""Learning rules. `RULES` is the table of all of them, by the name a TOML file uses."""

from .dfa import DFA
from .drtp import DRTP
from .fa import FA
from .feedback import Direct, Feedback, Silent, Weights
from .gd import GD
from .gln import GLN
from .hebb import Hebb
from .kolen_pollack import KolenPollack
from .lookup import RULES, as_rule
from .mixture import Mixture
from .readout_only import ReadoutOnly
from .rule import Gradient, Rule, Site
from .signed_hebb import SignedHebb
from .traditional_hebb import TraditionalHebb

__all__ = [
    "DFA",
    "DRTP",
    "FA",
    "GD",
    "GLN",
    "RULES",
    "Direct",
    "Feedback",
    "Gradient",
    "Hebb",
    "KolenPollack",
    "Mixture",
    "ReadoutOnly",
    "Rule",
    "SignedHebb",
    "Silent",
    "Site",
    "TraditionalHebb",
    "Weights",
    "as_rule",
]
