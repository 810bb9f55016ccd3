"""Learning rules. `RULES` is the table of all of them, by the name a TOML file uses."""

from .dfa import DFA
from .drtp import DRTP
from .eprop import EProp
from .fa import FA
from .feedback import Direct, Feedback, Mirror, Past, Readout, Signs, Silent, Truncated, Vectors, Weights
from .gd import GD
from .gln import GLN
from .hebb import Hebb
from .kolen_pollack import KolenPollack
from .lookup import RULES, as_rule
from .mixture import Mixture
from .readout_only import ReadoutOnly
from .rflo import RFLO
from .rule import Gradient, Rule, Site
from .sign_symmetric import SignSymmetric
from .signed_hebb import SignedHebb
from .traditional_hebb import TraditionalHebb
from .truncated_bptt import TruncatedBPTT
from .weight_mirror import WeightMirror

__all__ = [
    "DFA",
    "DRTP",
    "FA",
    "GD",
    "GLN",
    "RFLO",
    "RULES",
    "Direct",
    "EProp",
    "Feedback",
    "Gradient",
    "Hebb",
    "KolenPollack",
    "Mirror",
    "Mixture",
    "Past",
    "Readout",
    "ReadoutOnly",
    "Rule",
    "SignSymmetric",
    "SignedHebb",
    "Signs",
    "Silent",
    "Site",
    "TraditionalHebb",
    "Truncated",
    "TruncatedBPTT",
    "Vectors",
    "WeightMirror",
    "Weights",
    "as_rule",
]
