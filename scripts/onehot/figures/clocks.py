"""What each clock says of the same call on the GPU, and what an unsynchronised timing would have claimed."""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from onehot import frames as tables
from onehot import theme
from onehot.figures import absences
from onehot.figures.absences import title_of
from onehot.figures.registry import figure
from onehot.frames import Frames, records
from onehot.presentation import significant
from onehot.variant import GEOMETRIES


@dataclass(frozen=True)
class ClockLook:
    """Marker and name of one clock."""

    marker: str
    filled: bool
    text: str

    def style(self, colour: str) -> dict[str, Any]:
        """Return the marker in a colour; open ones are hollow, so that none hides another."""
        return {
            "marker": self.marker,
            "mfc": colour if self.filled else "none",
            "mec": colour,
            "ms": 5.5,
            "ls": "",
        }


CLOCKS = {
    "enqueue": ClockLook("<", False, "enqueue: host call alone, unsynchronised"),
    "latency": ClockLook("o", True, "latency: idle stream to idle stream"),
    "throughput": ClockLook("D", False, "throughput: back to back"),
    "device_cold": ClockLook("s", True, "device, L2 flushed"),
    "device_hot": ClockLook("^", False, "device, hot"),
}


@figure
def clocks(frames: Frames) -> Figure:
    """Draw what each clock says of the same call, and what an unsynchronised one would have claimed."""
    backend = _asynchronous_backend(frames)
    chosen = tables.main_slice(frames.summary[frames.summary["backend"] == backend])
    rows, at = chosen.rows, ""
    if len(rows):
        minibatch = absences.question_minibatch(frames, rows)
        rows, at = rows[rows["minibatch"] == minibatch], f", {absences.at_size(minibatch)}"
    names = [name for geometry in GEOMETRIES for name in _implementations(rows, geometry)]
    drawn, [[axes]] = theme.sheet(max(0.3 * len(names) + 0.3, 1.6))
    theme.time_axis(axes, "x", absences.extent(rows, "median"))
    theme.rows_axis(axes, names)
    axes.set_xlabel("time of one call")
    if not names:
        theme.say(axes, absences.why_absent(frames, backend))
    for number, name in enumerate(names):
        _draw(axes, number, name, rows[rows["implementation"] == name])
    _legend(axes, rows)
    theme.finish(
        drawn,
        title=f"What each clock says of one call on {title_of(backend)}{at}",
        subtitle=absences.subtitle(frames, chosen.setting),
        notes=[*_notes(frames, rows), *absences.undrawable_notes(rows, "median"), *chosen.notes],
        margins=theme.Margins(left=1.45, right=1.5, above=0.52),
    )
    return drawn


def _asynchronous_backend(frames: Frames) -> str:
    """Return the first backend whose calls return before the work is done."""
    found = absences.in_order(frames.summary.loc[frames.summary["clock"] == "enqueue", "backend"])
    return found[0] if found else "cupy"


def _implementations(rows: pd.DataFrame, geometry: str) -> list[str]:
    return theme.in_order(list(rows.loc[rows["geometry"] == geometry, "implementation"]))


def _draw(axes: Axes, number: int, name: str, rows: pd.DataFrame) -> None:
    """Draw the clocks of one implementation, and the share of its latency that enqueueing takes."""
    colour, edge = theme.look(name).colour, axes.get_yaxis_transform()
    axes.get_yticklabels()[number].set_color(colour)
    known: dict[str, float] = {}
    for row in records(rows):
        clock, seconds = row["clock"], row["median"]
        if not (math.isfinite(seconds) and seconds > 0):
            axes.plot(0.01, number, "x", color=colour, transform=edge, clip_on=False, gid=f"cross:{clock}")
            continue
        known[clock] = seconds
        axes.plot(seconds, number, zorder=3, gid=f"clock:{clock}:{name}", **CLOCKS[clock].style(colour))
        if row["low"] > 0 and math.isfinite(row["high"]):
            axes.hlines(number, row["low"], row["high"], color=colour, lw=1)
    if {"enqueue", "latency"} <= set(known):
        axes.hlines(number, known["enqueue"], known["latency"], color=colour, lw=5, alpha=0.2, zorder=1)
        share = significant(100 * known["enqueue"] / known["latency"], 2)
        theme.beside(axes, f"{share} % of the latency", (1, number), 8, coordinates=edge, gid="share")


def _legend(axes: Axes, rows: pd.DataFrame) -> None:
    """Explain the markers in grey: their colours are the implementations'."""
    shown = [look for clock, look in CLOCKS.items() if clock in set(rows["clock"])]
    if not shown:
        return
    handles = [Line2D([], [], label=look.text, **look.style(theme.QUIET)) for look in shown]
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.28, 1.02), "borderaxespad": 0}
    axes.legend(handles=handles, ncols=3, frameon=False, handletextpad=0.2, columnspacing=1.2, **place)
    axes.annotate(
        "an unsynchronised\nclock would claim",
        (1, 1),
        (8, 6),
        xycoords="axes fraction",
        textcoords="offset points",
        size=theme.SMALL,
        weight="bold",
        va="bottom",
    )


def _notes(frames: Frames, rows: pd.DataFrame) -> list[str]:
    if rows.empty:
        return ["A backend that returns when its work is done has one clock only: nothing to compare."]
    notes = ["Shaded: what a clock that is read without a synchronisation leaves out. It is never ranked."]
    device = set(rows.loc[rows["clock"].str.startswith("device"), "implementation"])
    without = [name for name in theme.in_order(list(rows["implementation"])) if name not in device]
    if without:
        notes.append(
            "No device clock, because the call waits for the device inside or its stream could not be held: "
            f"{', '.join(without)}."
        )
    return [*notes, *absences.interval_notes(frames, rows, "the median over processes")]
