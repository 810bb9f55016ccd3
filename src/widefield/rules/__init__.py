"""Learning rules. `RULES` is the table of all of them, by the name a TOML file uses."""

from .dfa import DFA
from .drtp import DRTP
from .fa import FA
from .feedback import Direct, Feedback, Mirror, Past, Signs, Silent, Vectors, Weights
from .gd import GD
from .gln import GLN
from .hebb import Hebb
from .kolen_pollack import KolenPollack
from .lookup import RULES, as_rule
from .mixture import Mixture
from .readout_only import ReadoutOnly
from .rule import Gradient, Rule, Site
from .sign_symmetric import SignSymmetric
from .signed_hebb import SignedHebb
from .traditional_hebb import TraditionalHebb
from .weight_mirror import WeightMirror

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
    "Mirror",
    "Mixture",
    "Past",
    "ReadoutOnly",
    "Rule",
    "SignSymmetric",
    "SignedHebb",
    "Signs",
    "Silent",
    "Site",
    "TraditionalHebb",
    "Vectors",
    "WeightMirror",
    "Weights",
    "as_rule",
]
