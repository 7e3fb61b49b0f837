"""What the tables hold, and how a figure says what they do not."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from onehot import frames as tables
from onehot import theme
from onehot.frames import Frames, records
from onehot.presentation import NAMES
from onehot.variant import GEOMETRIES

COMPARED = "throughput"
"""The clock of figures that compare: what a loop over many minibatches feels."""

CLOCK_NOTE = "throughput: calls back to back, one synchronisation"

BACKENDS = ("numpy", "cupy")

MARGIN = 4.0
"""Two processes can leave an interval of many decades: drawn whole, it would flatten every line."""


def title_of(backend: str) -> str:
    """Return a backend's name as its authors write it."""
    return NAMES.get(backend, backend)


def at_size(minibatch: float) -> str:
    """Return ``m = 2048`` in one piece: no line breaks inside it."""
    return f"m\u00a0=\u00a0{minibatch:.0f}"


def subtitle(frames: Frames, *parts: str) -> str:
    """Return the line below a title: the machine first, then what holds for the whole figure."""
    return " · ".join(part for part in (frames.machine, *parts) if part)


def in_order(backends: Iterable[str]) -> list[str]:
    """Return backends, each once, NumPy and CuPy first."""
    found = set(backends)
    return [name for name in BACKENDS if name in found] + sorted(found - set(BACKENDS))


def backends_asked(frames: Frames) -> list[str]:
    """Return NumPy and CuPy as far as the study asked for them; where it asked for neither, what it did."""
    asked = {*frames.summary["backend"], *frames.status["backend"]} or set(BACKENDS)
    return in_order(asked & set(BACKENDS) or asked)


def geometries_asked(frames: Frames) -> list[str]:
    """Return the geometries that the study asked for; both where it asked for none."""
    found = {*frames.summary["geometry"], *frames.status["geometry"]} or set(GEOMETRIES)
    return [name for name in GEOMETRIES if name in found]


def question_minibatch(frames: Frames, rows: pd.DataFrame) -> int:
    """Return the minibatch of the full run where it was sampled too, else the largest."""
    full = frames.headline.loc[frames.headline["source"] != "published", "minibatch"]
    wanted = [int(size) for size in full if size in set(rows["minibatch"])]
    return wanted[0] if wanted else int(rows["minibatch"].max())


def drawable(values: "pd.Series[float]") -> "pd.Series[bool]":
    """Tell what a log axis can show."""
    return pd.Series(np.isfinite(values) & (values > 0), index=values.index)


def extent(rows: pd.DataFrame, value: str) -> list[float]:
    """Return what an axis must hold: every value, and intervals up to a factor of `MARGIN` beyond them."""
    values = rows.loc[drawable(rows[value]), value]
    if values.empty:
        return []
    low, high = values.min() / MARGIN, values.max() * MARGIN
    bounds = pd.concat([rows["low"], rows["high"]])
    return [*values, *bounds[drawable(bounds)].clip(low, high)]


def why_absent(frames: Frames, backend: str, **where: object) -> str:
    """Say that nothing was measured, and the reason that most of the variants give."""
    rows = frames.status[frames.status["backend"] == backend]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    reasons = rows.loc[rows["reason"] != "", "reason"].value_counts()
    known = f": {reasons.index[0]}" if len(reasons) else ""
    return f"nothing measured on {title_of(backend)}{known}"


def undrawable_notes(rows: pd.DataFrame, value: str) -> list[str]:
    """Name the points that a log axis cannot show."""
    bad = records(rows[~drawable(rows[value])])
    named = [
        f"{row['implementation']} on {title_of(row['backend'])} at {at_size(row['minibatch'])}" for row in bad
    ]
    note = f"× at the edge: zero or missing, which a log axis cannot show: {'; '.join(named)}."
    return [note] if bad else []


def interval_notes(frames: Frames, rows: pd.DataFrame, what: str) -> list[str]:
    """Say what bands and bars are, and which rows have none."""
    if rows.empty:
        return []
    without = rows[~np.isfinite(rows["low"]) | ~np.isfinite(rows["high"])]
    if len(without) == len(rows):
        return ["No interval: one process each says nothing of the next."]
    cut = (
        " One that reaches the edge goes on beyond it." if (rows["high"] / rows["low"] > MARGIN).any() else ""
    )
    notes = [f"Bands and bars: {frames.interval} of {what}; often narrower than the marker.{cut}"]
    if len(without):
        names = theme.in_order(list(without["implementation"]))
        notes.append(f"No interval where only one process measured: {', '.join(names)}.")
    return notes


def one_size_notes(rows: pd.DataFrame) -> list[str]:
    """Say that there is no line because there is one minibatch size."""
    one = rows["minibatch"].nunique() == 1
    return ["One minibatch size only: there is nothing to draw a line along."] if one else []


def unmeasured_notes(frames: Frames, rows: pd.DataFrame) -> list[str]:
    """Name the variants that the plan holds and this clock does not, unless the whole backend is missing."""
    planned = tables.main_slice(frames.status).rows
    keys = ["geometry", "backend", "implementation", "minibatch"]
    measured = set(rows[keys].itertuples(index=False, name=None))
    lost = [row not in measured for row in planned[keys].itertuples(index=False, name=None)]
    absent = planned[np.array(lost, bool) & planned["backend"].isin(rows["backend"]).to_numpy()]
    notes = []
    for backend, of_backend in tables.by(absent, "backend"):
        known = planned[planned["backend"] == backend]
        named = "; ".join(sizes_lost(of_backend, known))
        notes.append(f"Not measured on {title_of(backend)}: {named}. The status table says why.")
    return notes


MOST_NAMED = 4
"""Implementations that are missing at every size: more are counted, for the status table names them all."""


def sizes_lost(lost: pd.DataFrame, known: pd.DataFrame) -> list[str]:
    """Name the minibatches that are missing of each implementation, then those that are missing wholly."""
    partly, wholly = [], []
    for name, rows in tables.by(lost, "implementation"):
        missing = sorted(set(rows["minibatch"]))
        every = sorted(set(known.loc[known["implementation"] == name, "minibatch"]))
        if missing == every:
            wholly.append(f"{name} at any m")
        else:
            partly.append(_sizes_of(name, missing, every))
    if len(wholly) > MOST_NAMED:
        wholly = [f"{len(wholly)} more implementations at any m"]
    return partly + wholly


def _sizes_of(name: str, missing: list[float], every: list[float]) -> str:
    if len(missing) > 1 and missing == every[-len(missing) :]:
        return f"{name} from {at_size(missing[0])}"
    return f"{name} at {', '.join(at_size(size) for size in missing)}"
