"""The expansion in 1/N in a few lines."""

from __future__ import annotations

import numpy as np

from ..results.estimate import Estimate
from .expansion import FiniteWidth

_SHOWN = ("loss", "f", "phi", "entk")


def summarise(found: FiniteWidth) -> str:
    """Shift and fluctuations at the end of training, and where 1/N has not set in."""
    data = found.dataset
    lines = [f"finite width around infinite width, from networks of width {', '.join(map(str, found.widths))}"]
    for name in _SHOWN:
        if name not in data:
            continue
        last = {
            key: data[f"{name}{key}"].isel(time=-1).values for key in ("", "_se", "_shift", "_shift_se", "_variance")
        }
        if last[""].ndim == 0:
            mean, shift = (Estimate(float(last[key]), float(last[f"{key}_se"])) for key in ("", "_shift"))
            said = f"{mean} + ({shift})/N, standard deviation {np.sqrt(last['_variance']):.3g}/√N"
        else:
            size = {key: float(np.sqrt(np.mean(value**2))) for key, value in last.items()}
            shift = Estimate(size["_shift"], size["_shift_se"])
            deviation = np.sqrt(np.mean(last["_variance"]))
            said = f"rms {size['']:.3g}; shift rms ({shift})/N, standard deviation rms {deviation:.3g}/√N"
        lines.append(f"  final {name:<6}{said}")
    if found.onset is None:
        return "\n".join([*lines, "  one width: whether 1/N has set in is not known"])
    late = found.late()
    if not late:
        return "\n".join([*lines, "  N·shift and N·variance do not depend on N within errors: 1/N has set in"])
    lines.append("  1/N has not set in for")
    for name in late:
        row = found.onset.sel(variable=name)
        for what, label in (("shift", "N·shift"), ("variance", "N·variance")):
            values = ", ".join(
                str(Estimate(float(v), float(e)))
                for v, e in zip(row[what].values, row[f"{what}_error"].values, strict=True)
            )
            lines.append(f"    {name}: {label} by width {values} (chance {float(row[f'chance_{what}']):.2g})")
    return "\n".join(lines)
