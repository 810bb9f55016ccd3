"""An identification in a few lines."""

from __future__ import annotations

import numpy as np

from ..results.estimate import Estimate
from .answer import NONE, Identification


def summarise(found: Identification) -> str:
    lines = [f"{found.best}: probability {float(found.posterior.max()):.3g}"]
    order = np.argsort(-found.posterior.values)
    width = max(len(str(name)) for name in found.posterior["candidate"].values)
    for place in order:
        name, chance = str(found.posterior["candidate"].values[place]), float(found.posterior.values[place])
        if name == NONE:
            lines.append(f"  {name:<{width}}  {chance:7.4f}")
            continue
        row = found.fitted.sel(candidate=name)
        gain, scale = (Estimate(float(row[key]), float(row[f"{key}_se"])) for key in ("gain", "time_scale"))
        lines.append(f"  {name:<{width}}  {chance:7.4f}   gain {gain}, time scale {scale}")
    if found.outside is not None:
        lines.append(f"  of the rules outside the candidates, {found.outside} fits best")
    for group in found.indistinguishable:
        lines.append(f"  {' and '.join(group)} cannot be told apart by these data")
    for name, interval in found.parameters.items():
        between = f"{100 * found.level:g} % interval {interval.lower:.3g} to {interval.upper:.3g}"
        lines.append(f"  {name}: {interval.mean:.3g}, {between}")
    if found.against is not None:
        deciding = found.deciding
        stage, layer, stimulus = (
            int(np.argmax(deciding[name].values)) for name in ("by_stage", "by_layer", "by_stimulus")
        )
        lines.append(
            f"  against {found.against}, most is decided at step {float(deciding['step'][stage]):g}, in layer "
            f"{int(deciding['layer'][layer])} and by stimulus {stimulus}"
        )
    good = found.goodness
    lines.append(
        f"  goodness of fit: {good.statistic:.4g} where {good.expected:.4g} is expected, χ² {good.chi_squared:.3g} in "
        f"{good.directions} directions (chance {good.chance:.2g})"
    )
    return "\n".join(lines)
