"""The figure of several machines: how much faster each is than the first, variant by variant."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onehot import clocks, theme
from onehot.presentation import NAMES
from onehot.theme import Margins
from onehot.variant import COLUMNS

LINE = ["implementation", "minibatch"]
SETTING = [name for name in COLUMNS if name not in (*LINE, "backend", "geometry")]


def speedup(frame: pd.DataFrame) -> Figure:
    """Draw the speed-up over the baseline against the minibatch, a panel for each machine and backend."""
    with theme.applied():
        return _speedup(frame)


def _speedup(frame: pd.DataFrame) -> Figure:
    rows, setting = _main_setting(frame[frame["clock"] == clocks.THROUGHPUT])
    panels = sorted(set(rows[["machine", "backend"]].itertuples(index=False, name=None)))
    drawn, axes = theme.sheet(2.6 * max(len(panels), 1) + 0.7 * (len(panels) - 1), max(len(panels), 1), 1)
    for (machine, backend), (panel,) in zip(panels, axes, strict=True) if panels else []:
        panel.set_title(f"{NAMES.get(backend, backend)} on {machine}")
        _panel(panel, rows[(rows["machine"] == machine) & (rows["backend"] == backend)])
    if not panels:
        theme.say(axes[0][0], "no variant was measured on two machines")
    baselines = " + ".join(sorted(set(rows["baseline"])))
    theme.finish(
        drawn,
        title=f"Speed-up over {baselines}" if baselines else "Speed-up between machines",
        subtitle=" · ".join(["throughput: calls back to back, one synchronisation", *setting]),
        notes=["Bars: interval of the ratio. Open marker: neither faster nor slower beyond doubt."],
        margins=Margins(left=0.78, right=1.9, down=0.7),
    )
    return drawn


def _main_setting(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Keep the setting that most variants share, and say what it is where there are others."""
    said = []
    for name in SETTING:
        if rows[name].nunique() > 1:
            value = rows[name].mode().iloc[0]
            rows = rows[rows[name] == value]
            said.append(f"{name} {'all' if name == 'threads' and value == 0 else value}")
    return rows, said


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    names = theme.in_order(list(rows["implementation"]))
    for name in names:
        of_name = rows[rows["implementation"] == name].sort_values("minibatch")
        _line(axes, name, of_name)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    theme.ratio_axis(axes, _finite([*rows["speedup"], *rows["low"], *rows["high"], 1.0]))
    theme.minibatch_axis(axes, [int(size) for size in rows["minibatch"]], width=4.8)
    axes.set_ylabel("speed-up")


def _line(axes: Axes, name: str, rows: pd.DataFrame) -> None:
    style = theme.marker(name, filled=True)
    value = rows["speedup"].to_numpy()
    bars = np.abs(np.vstack([value - rows["low"], rows["high"] - value]))
    axes.errorbar(rows["minibatch"], value, yerr=np.nan_to_num(bars), label=name, capsize=2, **style)
    unsure = rows[rows["verdict"] == "inconclusive"]
    axes.plot(
        unsure["minibatch"], unsure["speedup"], linestyle="", **theme.marker(name, filled=False), zorder=3
    )


def _finite(values: Sequence[float]) -> list[float]:
    return [float(value) for value in values if np.isfinite(value) and value > 0]
