"""The table of rules, and how a name becomes a rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import InputError, shown
from ..problem.references import load_reference
from .dfa import DFA
from .drtp import DRTP
from .eprop import EProp
from .fa import FA
from .gd import GD
from .gln import GLN
from .hebb import Hebb
from .kolen_pollack import KolenPollack
from .mixture import Mixture
from .readout_only import ReadoutOnly
from .rflo import RFLO
from .rule import Rule
from .sign_symmetric import SignSymmetric
from .signed_hebb import SignedHebb
from .traditional_hebb import TraditionalHebb
from .truncated_bptt import TruncatedBPTT
from .weight_mirror import WeightMirror

RULES: dict[str, type[Rule]] = {
    "gd": GD,
    "fa": FA,
    "dfa": DFA,
    "gln": GLN,
    "hebb": Hebb,
    "traditional_hebb": TraditionalHebb,
    "signed_hebb": SignedHebb,
    "drtp": DRTP,
    "kolen_pollack": KolenPollack,
    "sign_symmetric": SignSymmetric,
    "weight_mirror": WeightMirror,
    "readout_only": ReadoutOnly,
    "rflo": RFLO,
    "eprop": EProp,
    "truncated_bptt": TruncatedBPTT,
    "mixture": Mixture,
}


def as_rule(value: str | Rule | type[Rule], parameters: Mapping[str, Any] | None = None) -> Rule:
    """Turn a name from `RULES`, `module:Name`, a rule class or a rule into a rule."""
    parameters = dict(parameters or {})
    if isinstance(value, Rule):
        return value
    if isinstance(value, str):
        if value.lower() in RULES:
            value = RULES[value.lower()]
        elif ":" in value:
            value = load_reference("rule", value)
            if isinstance(value, Rule) and not parameters:
                return value
        else:
            raise InputError(
                f"rule is {shown(value)}; allowed: one of {', '.join(RULES)}, or 'module:Name' for your own"
            )
    if not (isinstance(value, type) and issubclass(value, Rule)):
        raise InputError(f"rule is {shown(value)}; allowed: a widefield.rules.Rule")
    known = {f.name for f in dataclasses.fields(value) if f.init}
    for name in parameters:
        if name not in known:
            raise InputError(
                f"rule.{name} does not exist; {value.__name__} has: {', '.join(sorted(known)) or 'nothing'}"
            )
    try:
        return value(**parameters)
    except TypeError as error:
        raise InputError(f"rule is {value.__name__} with {parameters}; {error}") from error


def rule_name(rule: Rule) -> str:
    """What a TOML file says for this rule: its name in `RULES`, or module:Name."""
    for name, kind in RULES.items():
        if type(rule) is kind:
            return name
    return f"{type(rule).__module__}:{type(rule).__qualname__}"
