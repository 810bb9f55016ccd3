"""Which learning rule did this? Candidates, their likelihood given what was observed, and planning an experiment."""

from .answer import Identification
from .identifying import identify
from .planning import Power, power
from .predictions import Candidates
from .preparing import candidates

__all__ = ["Candidates", "Identification", "Power", "candidates", "identify", "power"]
