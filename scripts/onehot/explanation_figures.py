"""The figures that explain: what each cause costs, what was counted, what was predicted, what fits in memory.

They are registered beside the others in ``figures.FIGURES`` by importing this module.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from onehot import theme
from onehot.backends import registry as backends
from onehot.figures import absences
from onehot.figures.registry import figure
from onehot.frames import Frames, records
from onehot.presentation import NAMES, seconds_text, significant
from onehot.variant import GEOMETRIES

BACKENDS = ("numpy", "cupy")
QUESTION = (2048, 50_000)
"""Minibatch and vocabulary of the question."""

COUNTED = {
    "kernels": ("kernels", "o", "#b2182b"),
    "driver_calls": ("calls of the driver", "s", "#7f4a0c"),
    "synchronizations": ("synchronisations", "D", "#0b55b5"),
    "to_host": ("copies to the host", "v", "#12876a"),
    "pool_requests": ("pool requests", "x", "#555555"),
}
"""Columns of the ledger that the figure shows: what they are called, marker, colour."""

FORMS = {"one-hot": ("#b2182b", "-"), "CSR": ("#c2449b", "-"), "indices": ("#0b55b5", ":")}
"""Colour and line of each form of a minibatch; what lies on another line is dotted."""

SAVED, ADDED = "#0b55b5", "#d6604d"
"""Colours of what a rung of the ladder saves and of what it costs more."""

LONGEST_CAUSE = 40
"""Characters of a cause that fit beside a panel."""

NAMED_WORST = 3
"""Predictions that are named in each panel: the farthest from what was measured."""


def _at(frame: pd.DataFrame, minibatch: int) -> pd.DataFrame:
    """Keep the rows at a minibatch, or at the nearest one that was measured."""
    if frame.empty:
        return frame
    ratio = frame["minibatch"] / minibatch
    distance = ratio.where(ratio >= 1, 1 / ratio)
    nearest: pd.DataFrame = frame[distance == distance.min()]
    return nearest


def _keep_ticks_inside(axes: Axes) -> None:
    """Drop the ticks that a log axis makes beyond its limits: their labels would lie off the page."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        inside = [place for place in axis.get_majorticklocs() if low <= place <= high]
        axis.set_major_locator(FixedLocator(inside))


def _sizes(rows: pd.DataFrame) -> str:
    """Say at which sizes rows were measured."""
    if rows.empty:
        return ""
    first = rows.iloc[0]
    return f"m = {first['minibatch']:g}, V = {first['vocabulary']:g}, E = {first['embedding']:g}"


# The ladder ---------------------------------------------------------------------------------------


@figure
def ladder(frames: Frames) -> Figure:
    """Draw what each cause costs, from the loop down, NumPy and CuPy side by side."""
    rows = _at(frames.ladder, QUESTION[0])
    rows = rows[(rows["layout"] == "C") | ~rows["implementation"].isin(_both_layouts(rows))]
    geometries = [name for name in GEOMETRIES if name in set(rows["geometry"])] or list(GEOMETRIES[:1])
    heights = [max(rows.loc[rows["geometry"] == name, "rung"].nunique(), 3) for name in geometries]
    drawn, panels = theme.sheet(
        0.22 * sum(heights) + 0.75 * (len(geometries) - 1),
        len(geometries),
        len(BACKENDS),
        gridspec_kw={"height_ratios": heights},
    )
    for line, geometry in zip(panels, geometries, strict=True):
        of_geometry = rows[rows["geometry"] == geometry]
        for number, (axes, backend) in enumerate(zip(line, BACKENDS, strict=True)):
            axes.set_title(f"{NAMES.get(backend, backend)}, {geometry} geometry")
            empty = _waterfall(axes, of_geometry, backend, named=number == 0)
            if empty:
                theme.say(axes, absences.why_absent(frames, backend))
    theme.finish(
        drawn,
        title="What each cause costs: seconds that its removal saves, a minibatch",
        subtitle=absences.subtitle(frames, "calls back to back, one synchronisation", _sizes(rows)),
        notes=[
            "Blue reaches from the time with the cause to the time without it, red from the time before to a "
            "longer one after; grey is what is left.",
            f"Lines: {frames.interval} of what is saved. The scales of the two backends differ.",
        ],
        margins=theme.Margins(left=2.35, right=0.2, across=0.25, down=0.75),
    )
    return drawn


def _both_layouts(rows: pd.DataFrame) -> set[str]:
    """Return implementations that were measured in both memory orders of X."""
    counts = rows.groupby("implementation")["layout"].nunique()
    return set(counts.index[counts > 1])


def _waterfall(axes: Axes, of_geometry: pd.DataFrame, backend: str, *, named: bool) -> bool:
    """Draw one ladder with a line for each rung that any backend has; return whether it is empty."""
    lines = of_geometry.drop_duplicates("rung").sort_values("rung")
    places = {rung: place for place, rung in enumerate(lines["rung"])}
    rows = of_geometry[of_geometry["backend"] == backend].sort_values("rung").drop_duplicates("rung")
    axes.set_yticks(list(places.values()), [_cause(text) for text in lines["cause"]] if named else [])
    axes.set_ylim(max(len(places), 1) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value) if value else "0"))
    axes.grid(True, axis="y", ls=":")
    if rows.empty:
        return True
    whole = float(rows["seconds"].max())
    axes.set_xlim(0, 1.65 * whole)
    for row in rows.to_dict("records"):
        _bar(axes, places[row["rung"]], {str(key): value for key, value in row.items()}, whole)
    return False


def _cause(text: str) -> str:
    """Name a rung's cause; where rungs were not measured it is several: the last, and how many more."""
    causes = text.split(" + ") if len(text) > LONGEST_CAUSE else [text]
    more = f" and {len(causes) - 1} more" if len(causes) > 1 else ""
    return text if text.startswith("as published") else f"− {causes[-1]}{more}"


def _bar(axes: Axes, place: int, row: dict[str, object], whole: float) -> None:
    """Draw one rung: what is left in grey, what was removed in blue, what was added in red."""
    seconds, removed = _number(row["seconds"]), _number(row["removed"])
    left = min(seconds, seconds + (removed if math.isfinite(removed) else 0))
    axes.barh(place, left, 0.62, color="#d8d8d8", gid="left")
    text = seconds_text(seconds)
    if math.isfinite(removed):
        colour = SAVED if removed > 0 else ADDED
        axes.barh(place, abs(removed), 0.62, left=left, color=colour, gid="removed")
        low, high = _number(row["removed_low"]), _number(row["removed_high"])
        if math.isfinite(low) and math.isfinite(high):
            axes.plot([seconds + low, seconds + high], [place, place], color=theme.INK, lw=1.0)
        sign = "−" if removed >= 0 else "+"
        share = abs(round(100 * _number(row["share"])))
        text = f"{sign}{seconds_text(abs(removed))} ({share} %)"
    end = max(seconds, seconds + removed) if math.isfinite(removed) else seconds
    axes.annotate(
        text, (min(end, whole), place), (4, 0), textcoords="offset points", va="center", size=theme.SMALL,
        bbox={"fc": "white", "ec": "none", "pad": 0.6},
    )  # fmt: skip


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float | np.number) else math.nan


# Training -----------------------------------------------------------------------------------------

TASKS = {"lookup": ("look rows up", "#555555"), "scatter": ("add gradients to rows", "#0b55b5"),
         "step": ("one whole step", "#b2182b")}  # fmt: skip
"""What the parts of training are called, and their colours."""


@figure
def training(frames: Frames) -> Figure:
    """Draw the time of lookup, gradient and whole step, by backend and implementation."""
    rows = _at(frames.training, QUESTION[0])
    rows = rows[rows["seconds"] > 0]
    lines = [row for task in TASKS for row in records(rows[rows["task"] == task].sort_values("seconds"))]
    drawn, [[axes]] = theme.sheet(max(0.21 * len(lines), 1.2))
    theme.time_axis(axes, "x", absences.extent(rows, "seconds"))
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.3)  # room for the words beside the largest
    theme.rows_axis(axes, [_who(row) for row in lines])
    for number, row in enumerate(lines):
        colour = TASKS[row["task"]][1]
        axes.get_yticklabels()[number].set_color(colour)
        filled = backends.on_device(row["backend"])
        axes.plot(row["seconds"], number, "o", mec=colour, mfc=colour if filled else "white", gid="point")
        right = row["seconds"]
        if row["low"] > 0 and math.isfinite(row["high"]):
            right = max(right, min(row["high"], high))
            axes.hlines(number, max(row["low"], low), right, color=colour, lw=1)
        gain = f" ({significant(row['speedup'], 2)}×)" if math.isfinite(row["speedup"]) else ""
        theme.beside(axes, seconds_text(row["seconds"]) + gain, (right, number), 6)
    if not lines:
        theme.say(axes, "nothing measured of the training step")
    axes.set_xlabel("time per minibatch")
    theme.finish(
        drawn,
        title="What the gather is worth in a step of training",
        subtitle=absences.subtitle(frames, "calls back to back, one synchronisation", _sizes(rows)),
        notes=[
            "; ".join(f"{name}: {words}" for name, (words, _) in TASKS.items())
            + ". Open circles: on the CPU; filled: on the GPU.",
            "In brackets: how many times faster than the plain form on the same backend, scatter_add_at or "
            "step_loop.",
            f"Lines: {frames.interval} of the median over processes.",
        ],
        margins=theme.Margins(left=2.5, right=0.2),
    )
    return drawn


def _who(row: dict[str, Any]) -> str:
    threads = ", all cores" if row["threads"] == 0 else ""
    return f"{NAMES.get(row['backend'], row['backend'])} {row['implementation']}{threads}"


# The model ----------------------------------------------------------------------------------------


@figure
def prediction(frames: Frames) -> Figure:
    """Draw predicted against measured time of every variant, a panel for each backend."""
    rows = frames.prediction[(frames.prediction["measured"] > 0) & (frames.prediction["predicted"] > 0)]
    drawn, [panels] = theme.sheet(3.1, 1, len(BACKENDS))
    span = [*rows["measured"], *rows["predicted"]]
    for axes, backend in zip(panels, BACKENDS, strict=True):
        axes.set_title(NAMES.get(backend, backend))
        of_backend = rows[rows["backend"] == backend]
        if of_backend.empty:
            theme.say(axes, absences.why_absent(frames, backend))
            axes.set(xticks=[], yticks=[])
        else:
            _predictions(axes, of_backend, span)
            _keep_ticks_inside(axes)
    panels[1].tick_params(labelleft=False)
    panels[0].set_ylabel("predicted time per minibatch")
    unpredicted = frames.prediction[frames.prediction["predicted"].isna()]
    theme.finish(
        drawn,
        title="Predicted by unit costs against measured: no parameter is fitted",
        subtitle=absences.subtitle(frames, "calls back to back, one synchronisation"),
        notes=[
            "Line: predicted as measured; band: within 25 %; dotted: a factor of two. Below the line a "
            "cost is missing from the model.",
            *(note for name in BACKENDS for note in _farthest_note(rows[rows["backend"] == name], name)),
            *([f"{len(unpredicted)} variants are not predicted: see the table."] if len(unpredicted) else []),
        ],
        margins=theme.Margins(left=0.78, right=0.25, across=0.35),
    )
    return drawn


def _predictions(axes: Axes, rows: pd.DataFrame, span: Sequence[float]) -> None:
    theme.time_axis(axes, "x", span)
    theme.time_axis(axes, "y", span)
    axes.set_xlabel("measured time per minibatch")
    ends = np.array(axes.get_xlim())
    axes.fill_between(ends, ends * 0.75, ends * 1.25, color="#e6eef7", lw=0, zorder=0)
    axes.plot(ends, ends, color=theme.FAINT, lw=1)
    for factor in (0.5, 2.0):
        axes.plot(ends, factor * ends, color=theme.FAINT, lw=0.8, ls=":")
    for name, group in rows.groupby("implementation", sort=True):
        look = theme.look(str(name))
        axes.plot(
            group["measured"], group["predicted"], look.marker, color=look.colour, ms=4.5, mew=1, ls="",
            gid=f"point:{name}",
        )  # fmt: skip
    for place, row in enumerate(_farthest(rows), start=1):
        spot = (row["measured"], row["predicted"])
        axes.plot(*spot, "o", ms=9, mfc="none", mec=theme.INK, mew=0.8, gid="farthest")
        # Away from the line, where there is room.
        side = -1 if row["ratio"] < 1 else 1
        axes.annotate(
            str(place), spot, (-8 * side, 8 * side), textcoords="offset points",
            ha="center", va="center", size=theme.SMALL, gid="label",
        )  # fmt: skip


def _farthest(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the predictions that are farthest from what was measured, the farthest first."""
    off = np.abs(np.log(rows["ratio"])).sort_values(ascending=False, kind="stable")
    return records(rows.loc[off.index[:NAMED_WORST]])


def _farthest_note(rows: pd.DataFrame, backend: str) -> list[str]:
    """Name the numbered points of a panel: beside them, names would cover one another."""
    named = [
        f"{place} {row['implementation']} at {absences.at_size(row['minibatch'])}: "
        f"{significant(row['ratio'], 2)}×"
        for place, row in enumerate(_farthest(rows), start=1)
    ]
    return [f"Farthest on {absences.title_of(backend)}: {'; '.join(named)}."] if named else []


# The ledger ---------------------------------------------------------------------------------------


@figure
def ledger(frames: Frames) -> Figure:
    """Draw what one call asks of the GPU, a line for each implementation, on a scale of counts."""
    rows = frames.ledger[frames.ledger["backend"] != "numpy"]
    rows = rows[rows[list(COUNTED)].notna().any(axis=1)]
    order = theme.in_order(list(rows["implementation"]))
    drawn, [[axes]] = theme.sheet(max(0.2 * len(order), 1.0))
    axes.set_ylim(max(len(order), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(order)), order)
    axes.grid(True, axis="y", ls=":")
    if rows.empty:
        theme.say(axes, absences.why_absent(frames, "cupy"))
    else:
        _counts(axes, rows, order)
    theme.finish(
        drawn,
        title="What one call asks of the GPU and its driver",
        subtitle=absences.subtitle(frames, "one call and one synchronisation, warm", _sizes(rows)),
        notes=[
            *_uncounted(frames),
            "A count of none has its marker on the left edge.",
            "Calls of CUDA's runtime are counted apart: see the table.",
        ],
        margins=theme.Margins(left=1.75, right=0.25, below=0.85, above=0.08),
    )
    return drawn


def _counts(axes: Axes, rows: pd.DataFrame, order: list[str]) -> None:
    """Draw the counts; a log axis has no zero, so none stands on its edge."""
    most = float(rows[list(COUNTED)].max().max())
    axes.set_xscale("log")
    axes.set_xlim(0.6, max(most, 1.0) * 2)
    axes.xaxis.set_major_locator(LogLocator(numticks=10))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}".replace(",", "\u202f")))
    axes.set_xlabel("count of one call")
    for column, (_, marker, colour) in COUNTED.items():
        known = rows[rows[column].notna()]
        places = [order.index(name) for name in known["implementation"]]
        counts = known[column].clip(lower=0.6)
        # Launches are calls of the driver: the two counts are often one, and a hollow marker hides nothing.
        hollow = {"mfc": "none", "ms": 8} if column == "driver_calls" else {"ms": 4.5}
        axes.plot(counts, places, marker, color=colour, mew=1.2, ls="", clip_on=False, gid=column, **hollow)
    handles = [
        Line2D([], [], marker=marker, color=colour, ls="", label=text)
        for text, marker, colour in COUNTED.values()
    ]
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(-0.2, 0), ncols=len(handles), frameon=False,
        borderaxespad=4.0, columnspacing=0.9, handletextpad=0.1,
    )  # fmt: skip


def _uncounted(frames: Frames) -> list[str]:
    """Say why launches are missing, where they are."""
    missing = frames.ledger[(frames.ledger["backend"] != "numpy") & frames.ledger["kernels"].isna()]
    return [f"Launches were not counted: {reason}." for reason in sorted(set(missing["reason"]) - {""})]


# Memory -------------------------------------------------------------------------------------------


@figure
def boundary(frames: Frames) -> Figure:
    """Draw the largest vocabulary whose minibatch fits, against its size, for each form of it."""
    rows = frames.boundary[frames.boundary["largest_vocabulary"] > 0]
    drawn, [panels] = theme.sheet(2.6, 1, len(BACKENDS))
    pending = []
    for number, (axes, backend) in enumerate(zip(panels, BACKENDS, strict=True)):
        of_backend = rows[rows["backend"] == backend]
        if of_backend.empty:
            theme.say(axes, absences.why_absent(frames, backend))
            axes.set(xticks=[], yticks=[])
        else:
            pending.append((axes, _limits_of_memory(axes, of_backend)))
            _keep_ticks_inside(axes)
        free = f", {significant(of_backend['free_bytes'].max() / 1e9)} GB free" if len(of_backend) else ""
        axes.set_title(f"{NAMES.get(backend, backend)}{free}")
        if number == 0:
            axes.set_ylabel("vocabulary V (rows of W0)")
    theme.finish(
        drawn,
        title="Where the dense one-hot matrix no longer fits",
        subtitle=absences.subtitle(frames, "W0, one minibatch in each form, and h"),
        notes=["Below a line all three fit in the memory that was free. The star is the question's size."],
        margins=theme.Margins(left=0.78, right=0.95, across=1.0),
    )
    for axes, labels in pending:
        theme.label_lines(axes, labels)
    return drawn


def _limits_of_memory(axes: Axes, rows: pd.DataFrame) -> list[theme.Label]:
    """Draw one line a form and return its label."""
    theme.minibatch_axis(axes, [int(size) for size in rows["minibatch"]])
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(NullLocator())
    values = [*rows["largest_vocabulary"], QUESTION[1]]
    axes.set_ylim(*theme.log_limits(values))
    labels = []
    for name, (colour, dashes) in FORMS.items():
        line = rows[rows["representation"] == name].sort_values("minibatch")
        if line.empty:
            continue
        axes.plot(
            line["minibatch"],
            line["largest_vocabulary"],
            color=colour,
            ls=dashes,
            marker="o",
            ms=2.5,
            gid=name,
        )
        last = line.iloc[-1]
        labels.append(theme.Label(name, float(last["minibatch"]), float(last["largest_vocabulary"]), colour))
    axes.plot(*QUESTION, marker="*", ms=9, color=theme.INK, ls="", gid="question")
    return labels
