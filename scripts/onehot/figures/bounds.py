"""How close each lookup comes to what its own bytes and launches need at the least."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from onehot import theme
from onehot.backends import registry as backends
from onehot.bounds import LAUNCH, gathers
from onehot.figures import absences
from onehot.figures.absences import COMPARED, title_of
from onehot.figures.registry import figure
from onehot.frames import Frames
from onehot.presentation import significant
from onehot.theme import Label
from onehot.variant import ITEM_BYTES

PLACES = ((False, "on the CPU"), (True, "on the GPU"))


@figure
def bounds(frames: Frames) -> Figure:
    """Draw bound over measured time against minibatch size, a panel for each table size and place."""
    rows = gathers(frames.bounds[frames.bounds["clock"] == COMPARED])
    rows = rows[rows["fraction"] > 0]
    if len(rows):
        rows = rows[rows["distribution"] == rows["distribution"].iloc[0]]
    sizes = sorted(set(rows["vocabulary"])) or [math.nan]
    places = [one for one in PLACES if one[0] in set(rows["backend"].map(backends.on_device))] or [PLACES[1]]
    panels = [(size, place) for size in sizes for place in places if len(_of(rows, size, place[0]))]
    panels = panels or [(sizes[0], places[0])]
    drawn, axes = theme.sheet(3.0 * len(panels) + 0.72 * (len(panels) - 1), len(panels), 1)
    pending = [_panel(frames, line[0], rows, *panel) for line, panel in zip(axes, panels, strict=True)]
    theme.finish(
        drawn,
        title="How much of the bound each lookup reaches",
        subtitle=absences.subtitle(frames, absences.CLOCK_NOTE),
        notes=_notes(frames, rows),
        margins=theme.Margins(left=0.78, right=2.2, down=0.72),
    )
    for line, labels in zip(axes, pending, strict=True):
        theme.label_lines(line[0], labels)
    return drawn


def _of(rows: pd.DataFrame, size: float, on_device: bool) -> pd.DataFrame:
    kept: pd.DataFrame = rows[
        (rows["vocabulary"] == size) & (rows["backend"].map(backends.on_device) == on_device)
    ]
    return kept


def _panel(
    frames: Frames, axes: Axes, rows: pd.DataFrame, size: float, place: tuple[bool, str]
) -> list[Label]:
    own = _of(rows, size, place[0])
    if own.empty:
        axes.set_title(place[1])
        theme.say(axes, "no lookup with a bound was measured")
        axes.set_yticks([])
        return []
    table = size * own["embedding"].iloc[0] * ITEM_BYTES[str(own["dtype"].iloc[0])]
    axes.set_title(f"{place[1]}, V = {size:.0f}: a table of {significant(table / 1e6)} MB")
    theme.minibatch_axis(axes, [int(one) for one in own["minibatch"]], width=4.0)
    top = max(1.1, 1.05 * float(own["fraction"].max()))
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(MultipleLocator(0.2 if top < 1.6 else 0.5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.set_ylabel("bound / measured time")
    axes.axhline(1.0, color=theme.INK, lw=0.9, gid="reference")
    labels = []
    several = own["backend"].nunique() > 1
    for (name, backend), line in own.groupby(["implementation", "backend"], sort=False):
        best = line.sort_values("fraction").drop_duplicates("minibatch", keep="last").sort_values("minibatch")
        own_name = not several or str(backend).split("_")[0] in str(name)
        text = str(name) if own_name else f"{name} ({title_of(str(backend))})"
        labels.append(_line(axes, str(name), text, best))
    return labels


def _line(axes: Axes, name: str, text: str, line: pd.DataFrame) -> Label:
    colour = theme.look(name).colour
    axes.plot(line["minibatch"], line["fraction"], color=colour, lw=1.2, gid=f"line:{name}", zorder=3)
    for binds, filled in ((LAUNCH, False), ("bytes", True)):
        part = line[(line["binding"] == LAUNCH) != filled]
        style: dict[str, Any] = {"ls": "", "zorder": 4, **theme.marker(name, filled=filled)}
        axes.plot(part["minibatch"], part["fraction"], gid=f"{binds}:{name}", **style)
    banded = line[(line["fraction_low"] > 0) & (line["fraction_high"] > 0)]
    axes.vlines(banded["minibatch"], banded["fraction_low"], banded["fraction_high"], color=colour, lw=0.9)
    last = line.iloc[-1]
    return Label(text, float(last["minibatch"]), float(last["fraction"]), colour)


def _notes(frames: Frames, rows: pd.DataFrame) -> list[str]:
    if rows.empty:
        return ["A bound needs this machine's limits and a lookup that reads indices."]
    notes = [
        "Bound: the larger of the launches and the bytes of this variant's own size, at the limits measured "
        "here. Open markers: launches bind; filled: bytes do.",
        f"Bars: {frames.interval} of the median over processes.",
        "Of several thread counts the best is drawn.",
    ]
    if (rows["fraction"] > 1).any():
        notes.append(
            "Above 100 %: reads and writes overlap, or a cache serves what the bound asks of memory. The "
            "table flags what beats the slower of the two alone."
        )
    return notes
