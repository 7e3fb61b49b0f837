"""The question's run: as published, as run here for real, and as extrapolated from samples."""

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onehot import theme
from onehot.figures import absences
from onehot.figures.absences import BACKENDS, drawable, title_of
from onehot.figures.registry import figure
from onehot.frames import Frames, records
from onehot.presentation import seconds_text

SOURCES = {
    "published": "published by the question",
    "measured": "measured, whole run",
    "extrapolated": "extrapolated from samples",
}


@dataclass(frozen=True)
class Line:
    """One line of the figure: a heading, or one number, or the reason why there is none."""

    implementation: str
    text: str = ""
    source: str = ""
    seconds: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""


@figure
def headline(frames: Frames) -> Figure:
    """Draw the question's run as published, as run here for real, and as extrapolated from samples."""
    rows = frames.headline
    alike = rows["minibatches"].nunique() <= 1
    lines = _lines(frames, rows.assign(scale=1.0 if alike else rows["minibatches"]))
    drawn, [[axes]] = theme.sheet(max(0.21 * len(lines), 1.0))
    ends = [value for line in lines for value in (line.seconds, line.low, line.high)]
    theme.time_axis(axes, "x", [value for value in ends if math.isfinite(value) and value > 0])
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.1)  # room for the value beside the largest
    theme.rows_axis(axes, [line.text or line.implementation for line in lines])
    for number, line in enumerate(lines):
        _draw(axes, number, line)
    if not lines:
        theme.say(axes, "no full run was measured")
    axes.set_xlabel("time of the whole run" if alike else "time per minibatch")
    theme.finish(
        drawn,
        title=_title(rows, "seconds" if alike else "seconds_per_minibatch"),
        subtitle=absences.subtitle(frames, _setting(rows)),
        notes=_notes(frames, rows, alike),
        margins=theme.Margins(left=2.25, right=0.25, above=0.08),
    )
    return drawn


def _lines(frames: Frames, rows: pd.DataFrame) -> list[Line]:
    """Return lines from top to bottom: by implementation, backend and source, with what is missing."""
    lines: list[Line] = []
    for name in theme.in_order(list(rows["implementation"])):
        lines.append(Line(name))
        own = rows[rows["implementation"] == name]
        for backend in absences.in_order([*absences.backends_asked(frames), *rows["backend"]]):
            of_backend = own[own["backend"] == backend]
            for source in SOURCES:
                found = records(of_backend[of_backend["source"] == source])
                lines += [_number(row) for row in found]
                if not found and source == "measured":
                    text = f"{title_of(backend)}, {SOURCES[source]}"
                    lines.append(Line(name, text, source, reason=absences.why_absent(frames, backend)))
    return lines


def _number(row: dict[str, Any]) -> Line:
    """Return the line of one row of the table."""
    seconds, low, high = (row[name] / row["scale"] for name in ("seconds", "low", "high"))
    text = f"{title_of(row['backend'])}, {SOURCES[row['source']]}"
    if math.isfinite(seconds) and seconds > 0:
        return Line(row["implementation"], text, row["source"], seconds, low, high)
    reason = row["reason"] or f"zero or missing, which a log axis cannot show ({seconds:g})"
    return Line(row["implementation"], text, row["source"], reason=reason)


def _draw(axes: Axes, number: int, line: Line) -> None:
    """Draw one line: its heading, its number with the value beside it, or why there is none."""
    colour = theme.look(line.implementation).colour
    if not line.text:
        tick = axes.get_yticklabels()[number]
        tick.set(weight="bold", color=colour)
    elif math.isnan(line.seconds):
        edge = axes.get_yaxis_transform()
        # what a library says of itself follows in brackets, and stands whole in the table of status
        words = textwrap.shorten(line.reason.split(" (")[0], 84, placeholder=" …")
        theme.beside(axes, f"× {words}", (0, number), 4, theme.QUIET, edge, gid="absent")
    else:
        right = line.seconds
        if line.low > 0 and math.isfinite(line.high):
            right = max(right, line.high)
            bar: dict[str, Any] = {"color": colour, "lw": 3, "alpha": 0.4, "solid_capstyle": "butt"}
            axes.plot([line.low, line.high], [number, number], **bar)
        axes.plot(line.seconds, number, gid=f"point:{line.source}", **_point(line.source, colour))
        exact = line.source == "published" and line.seconds > 1
        text = f"{line.seconds:.5g} s" if exact else seconds_text(line.seconds)
        theme.beside(axes, text, (right, number), 7)


def _point(source: str, colour: str) -> dict[str, Any]:
    """Return the marker of a source: told apart in grey too."""
    if source == "published":
        return {"marker": "D", "mfc": "white", "mec": colour, "ms": 5, "mew": 1.3}
    if source == "extrapolated":
        return {"marker": "|", "mec": colour, "ms": 9, "mew": 1.5}
    return {"marker": "o", "mfc": colour, "mec": colour, "ms": 5.5}


def _title(rows: pd.DataFrame, column: str) -> str:
    """Say what was found: the loop's time on both backends, or what there is of it."""
    loop = rows[(rows["implementation"] == "published_loop") & (rows["source"] == "measured")]
    value = {row["backend"]: row[column] for row in records(loop[drawable(loop["seconds"])])}
    unit = "" if column == "seconds" else " a minibatch"
    said = [f"{seconds_text(value[name])}{unit} on {title_of(name)}" for name in BACKENDS if name in value]
    if said:
        return f"The question's loop takes {' and '.join(said)}"
    return "The question's run: nothing measured" + (", only published" if len(rows) else "")


def _setting(rows: pd.DataFrame) -> str:
    full = records(rows[rows["source"] == "measured"])
    if not full:
        return "no full run measured"
    return (
        f"{full[0]['minibatches']:g} minibatches, {absences.at_size(full[0]['minibatch'])} rows, back to back"
    )


def _notes(frames: Frames, rows: pd.DataFrame, alike: bool) -> list[str]:
    notes = []
    if {"published_loop", "fancy_index"} <= set(rows["implementation"]):
        notes.append(
            "published_loop and published_gather compute one result, fancy_index the larger one that was "
            "meant: no ratio between them is drawn."
        )
    if not alike:
        notes.append("The runs differ in their number of minibatches: times are divided by it.")
    if rows["minibatch"].nunique() > 1:
        notes.append("The minibatch differs from the question's; its loop takes E steps whatever m is.")
    if (rows["source"] == "extrapolated").any():
        notes.append(
            "Extrapolated: median of the sampled minibatches times their number; bar: "
            f"{frames.interval}, where several processes measured."
        )
    if (rows["source"] == "published").any():
        notes.append("Published: as the question reports it, on its author's machine.")
    return notes
