"""Lines along the minibatch, the one axis on which interpolation means something."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from onehot import theme
from onehot.figures.absences import drawable
from onehot.theme import Label


def curves(axes: Axes, backend: str, rows: pd.DataFrame, value: str) -> list[Label]:
    """Draw every implementation of a backend with its interval; return the labels to set beside the panel."""
    labels: list[Label] = []
    for name in theme.in_order(list(rows["implementation"])):
        of_name = rows[rows["implementation"] == name].sort_values("minibatch")
        good = drawable(of_name[value])
        _crosses(axes, name, of_name[~good])
        if good.any():
            labels.append(_line(axes, name, backend, of_name[good], value))
    return labels


def _crosses(axes: Axes, name: str, bad: pd.DataFrame) -> None:
    """Set a cross at the lower edge for each point that a log axis cannot show."""
    heights, edge = np.full(len(bad), 0.02), axes.get_xaxis_transform()
    if len(bad):
        style: dict[str, Any] = {"color": theme.look(name).colour, "transform": edge, "clip_on": False}
        axes.plot(bad["minibatch"], heights, "x", gid=f"cross:{name}", **style)


def _line(axes: Axes, name: str, backend: str, good: pd.DataFrame, value: str) -> Label:
    colour = theme.look(name).colour
    axes.plot(
        good["minibatch"],
        good[value],
        ls=theme.DASHES.get(backend, "-"),
        gid=f"line:{backend}:{name}",
        zorder=3,
        **theme.marker(name, filled=backend != "numpy"),
    )
    banded = good[drawable(good["low"]) & drawable(good["high"])]
    axes.vlines(banded["minibatch"], banded["low"], banded["high"], color=colour, lw=1)
    if len(banded) > 1:
        band = banded["minibatch"], banded["low"], banded["high"]
        axes.fill_between(*band, color=colour, alpha=0.18, lw=0, gid=f"band:{backend}:{name}")
    last = good.iloc[-1]
    return Label(name, float(last["minibatch"]), float(last[value]), colour)
