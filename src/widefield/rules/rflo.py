"""Random-feedback local online learning."""

from __future__ import annotations

from dataclasses import dataclass

from .dfa import DFA


@dataclass(frozen=True)
class RFLO(DFA):
    """Random-feedback local online learning: s_t = e_t φ̇(h_t)⊙z̃ + (1−a) s_{t+1}.

    The error of a frame reaches all neurons through fixed N(0, 1) vectors, and the way back through W is left out. What
    (1−a) s_{t+1} sums up is the eligibility trace of the leak a, so that the rule is local in time. It is what `DFA` is
    in a recurrent network.
    """
