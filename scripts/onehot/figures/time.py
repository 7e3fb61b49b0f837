"""Time per minibatch against minibatch size, beside the times that this machine cannot beat."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onehot import frames as tables
from onehot import theme
from onehot.figures import absences
from onehot.figures.absences import COMPARED, drawable, title_of
from onehot.figures.curves import curves
from onehot.figures.registry import figure
from onehot.frames import Frames
from onehot.theme import Label
from onehot.variant import ITEM_BYTES, PUBLISHED

Pending = list[tuple[Axes, list[Label]]]
"""Labels wait until the panels have their final place."""


@figure
def time(frames: Frames) -> Figure:
    """Draw time per minibatch against minibatch size, a panel for each geometry and backend."""
    backends, geometries = absences.backends_asked(frames), absences.geometries_asked(frames)
    shown = frames.summary["backend"].isin(backends) & (frames.summary["clock"] == COMPARED)
    chosen = tables.main_slice(frames.summary[shown])
    columns = min(2, len(backends))
    lines = math.ceil(len(backends) / columns)
    heights = [height for geometry in geometries for height in [_height(geometry, geometries)] * lines]
    body = sum(heights) + 0.72 * (len(heights) - 1)
    drawn, panels = theme.sheet(body, len(heights), columns, gridspec_kw={"height_ratios": heights})
    pending: Pending = []
    for number, geometry in enumerate(geometries):
        own = [axes for line in panels[number * lines : (number + 1) * lines] for axes in line]
        pending += _panels(frames, own, geometry, backends, chosen.rows[chosen.rows["geometry"] == geometry])
    theme.finish(
        drawn,
        title="Time per minibatch against minibatch size",
        subtitle=absences.subtitle(frames, absences.CLOCK_NOTE, chosen.setting),
        notes=[*_notes(frames, chosen.rows), *chosen.notes],
        margins=theme.Margins(left=0.78, right=1.4, across=1.47, down=0.72),
    )
    for axes, labels in pending:
        theme.label_lines(axes, labels)
    return drawn


def _height(geometry: str, geometries: Sequence[str]) -> float:
    """Inches of a panel; the published geometry has two lines only."""
    return 1.6 if geometry == PUBLISHED and len(geometries) > 1 else 3.05


def _notes(frames: Frames, rows: pd.DataFrame) -> list[str]:
    return [
        *absences.interval_notes(frames, rows, "the median over processes"),
        *_bound_notes(frames, absences.in_order(rows["backend"])),
        *absences.undrawable_notes(rows, "median"),
        *absences.one_size_notes(rows),
        *absences.unmeasured_notes(frames, rows),
    ]


def _panels(
    frames: Frames, panels: Sequence[Axes], geometry: str, backends: Sequence[str], rows: pd.DataFrame
) -> Pending:
    """Draw the panels of one geometry, all with the same vertical axis."""
    pending: Pending = []
    seen = absences.extent(rows, "median")
    for axes, backend in zip(panels, backends, strict=False):
        of_backend = rows[rows["backend"] == backend]
        axes.set_title(f"{title_of(backend)}, {geometry} geometry")
        if of_backend.empty:
            theme.say(axes, absences.why_absent(frames, backend, geometry=geometry))
        bounds = _bounds(frames, backend, geometry, of_backend)
        seen += [seconds for bound in bounds for seconds in bound.seconds]
        labels = curves(axes, backend, of_backend, "median")
        pending.append((axes, labels + [_draw_bound(axes, bound) for bound in bounds]))
    for number, axes in enumerate(panels):
        axes.set_visible(number < len(backends))
        theme.minibatch_axis(axes, [int(size) for size in rows["minibatch"]])
        theme.time_axis(axes, "y", seen)
        if number % 2 == 0:
            axes.set_ylabel("time per minibatch")
        else:
            axes.tick_params(labelleft=False)
    return pending


# Bounds ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A time that nothing of its kind can beat, along the minibatch."""

    text: str
    minibatches: list[int]
    seconds: list[float]


def _limit(frames: Frames, backend: str, name: str) -> float | None:
    """Return one measured limit of this machine, or None."""
    rows = frames.limits[(frames.limits["backend"] == backend) & (frames.limits["name"] == name)]
    values = rows.loc[drawable(rows["value"]), "value"]
    return float(values.iloc[0]) if len(values) else None


def _bounds(frames: Frames, backend: str, geometry: str, rows: pd.DataFrame) -> list[Bound]:
    """Return the copy of the result (its bytes read and written once) and the bare launch, as measured."""
    sizes = sorted({int(size) for size in rows["minibatch"]})
    bandwidth, launch = _limit(frames, backend, "copy_bandwidth"), _limit(frames, backend, "launch")
    found = []
    if bandwidth and sizes:
        columns, dtype = int(rows["embedding"].iloc[0]), str(rows["dtype"].iloc[0])
        results = [columns if geometry == PUBLISHED else size for size in sizes]
        seconds = [2 * count * columns * ITEM_BYTES[dtype] / bandwidth for count in results]
        found.append(Bound("copy of the result", sizes, seconds))
    if launch and sizes:
        found.append(Bound("one launch", sizes, [launch] * len(sizes)))
    return found


def _draw_bound(axes: Axes, bound: Bound) -> Label:
    style: dict[str, Any] = {"color": theme.QUIET, "ls": "-.", "lw": 0.9, "marker": "_", "ms": 5}
    axes.plot(bound.minibatches, bound.seconds, gid=f"bound:{bound.text}", **style)
    return Label(bound.text, bound.minibatches[-1], bound.seconds[-1], theme.QUIET)


def _bound_notes(frames: Frames, backends: Sequence[str]) -> list[str]:
    without = [title_of(backend) for backend in backends if not _limit(frames, backend, "copy_bandwidth")]
    launch = "; one empty launch" if any(_limit(frames, backend, "launch") for backend in backends) else ""
    notes = []
    if len(without) < len(backends):
        notes.append(
            "Grey: bounds measured on this machine: the result's bytes read and written once at its copy "
            f"bandwidth{launch}."
        )
    if without:
        notes.append(f"No bound for {' and '.join(without)}: the table of limits holds no copy bandwidth.")
    return notes
