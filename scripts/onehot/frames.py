"""The tables as the figures read them: from CSV, typed, complete, and cut to what one figure can show."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from onehot import implementations
from onehot.variant import COLUMNS

TEXT = [
    "geometry",
    "backend",
    "implementation",
    "dtype",
    "index_dtype",
    "distribution",
    "layout",
    "clock",
    "stopped",
    "baseline",
    "verdict",
    "kind",
    "description",
    "source",
    "status",
    "reason",
    "cache",
    "stage",
    "name",
    "unit",
    "cause",
    "representation",
    "task",
    "binding",
    "reads",
]
"""Columns that hold words: an implementation called None or NA is a name, not a missing value."""

FACTORS = tuple(COLUMNS)
SETTINGS = tuple(
    name for name in FACTORS if name not in ("geometry", "backend", "implementation", "minibatch", "threads")
)
"""Factors that a figure holds at one value."""

_FEW = ["invocations", "samples", "outliers"]
SCHEMA = {
    "summary": (*FACTORS, "clock", "median", "low", "high", "p5", "p95", "minimum", *_FEW, "stopped"),
    "speedup": (*FACTORS, "clock", "baseline", "baseline_threads", "baseline_seconds", "seconds",
                "speedup", "low", "high", "verdict"),
    "crossover": ("geometry", "implementation", *SETTINGS, "baseline_threads", "clock", "kind",
                  "minibatch", "low", "high", "description"),
    "headline": ("backend", "implementation", "source", "minibatch", "minibatches", "seconds", "low", "high",
                 "seconds_per_minibatch", "status", "reason"),
    "limits": ("backend", "name", "kind", "unit", "value", "low", "high"),
    "status": (*FACTORS, "status", "reason", "invocations"),
    "variants": ("variant", *FACTORS),
    "measurements": ("variant", "invocation", "clock", "sample", "seconds", "outlier"),
    "ladder": (*FACTORS, "rung", "cause", "seconds", "low", "high", "removed", "removed_low", "removed_high",
               "share", "verdict"),
    "prediction": (*FACTORS, "clock", "predicted", "measured", "ratio", "reason"),
    "ledger": (*FACTORS, "kernels", "driver_calls", "synchronizations", "to_host", "pool_requests", "status",
               "reason"),
    "training": (*FACTORS, "task", "seconds", "low", "high", "speedup"),
    "bounds": (*FACTORS, "clock", "seconds", "fraction", "fraction_low", "fraction_high", "binding", "reads"),
    "boundary": ("backend", "representation", "minibatch", "largest_vocabulary", "free_bytes"),
}  # fmt: skip
"""The columns that the figures read of each table."""


@dataclass(frozen=True)
class Frames:
    """Everything that a figure may draw on.

    Attributes
    ----------
    machine : label of the machine, which every figure states.
    level : coverage of the intervals in the tables.
    summary, speedup, crossover, headline, limits, status, variants, measurements : the tables of those names.
    """

    machine: str
    level: float
    summary: pd.DataFrame
    speedup: pd.DataFrame
    crossover: pd.DataFrame
    headline: pd.DataFrame
    limits: pd.DataFrame
    status: pd.DataFrame
    variants: pd.DataFrame
    measurements: pd.DataFrame
    ladder: pd.DataFrame
    prediction: pd.DataFrame
    ledger: pd.DataFrame
    training: pd.DataFrame
    bounds: pd.DataFrame
    boundary: pd.DataFrame

    @property
    def interval(self) -> str:
        """The intervals' name, such as ``95 % interval``."""
        return f"{100 * self.level:g} % interval"


def load(folder: Path, machine: str, level: float) -> Frames:
    """Read the tables of one machine; a table that is not there counts as empty."""
    return Frames(
        machine, level, **{name: _read(folder / f"{name}.csv", columns) for name, columns in SCHEMA.items()}
    )


def empty(machine: str = "", level: float = 0.95) -> Frames:
    """Return frames without a row: a study that measured nothing."""
    return Frames(
        machine, level, **{name: _typed(pd.DataFrame(), columns) for name, columns in SCHEMA.items()}
    )


def _read(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    if not path.exists() or not path.stat().st_size:
        return _typed(pd.DataFrame(), columns)
    missing = {name: ["", "nan", "NaN"] for name in columns if name not in TEXT}
    text = {name: str for name in columns if name in TEXT}
    return _typed(pd.read_csv(path, dtype=text, na_values=missing, keep_default_na=False), columns)


def _typed(frame: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    """Give a table all its columns, words as text, the rest as numbers: minibatches sort as 16, 256, 2048."""
    frame = frame.reindex(columns=list(columns))
    for name in columns:
        if name in TEXT:
            frame[name] = frame[name].astype(object).where(frame[name].notna(), "").astype(str)
        else:
            frame[name] = pd.to_numeric(frame[name], errors="coerce")
    return frame


@dataclass(frozen=True)
class Slice:
    """The rows of a table that one figure shows, and what to say of the others.

    Attributes
    ----------
    rows : one row for each geometry, implementation, backend and minibatch.
    setting : the sizes and types that hold for them, in words.
    notes : what was left out or chosen.
    """

    rows: pd.DataFrame
    setting: str
    notes: list[str]


APART = ("ladder", "transfers", "training")
"""Modules whose implementations answer a question of their own."""


def _apart() -> set[str]:
    """Return the implementations that the comparison of lookups leaves to figures and tables of their own."""
    return {entry.name for _, entry in implementations.entries() if entry.module.split(".")[-1] in APART}


def main_slice(frame: pd.DataFrame) -> Slice:
    """Keep the setting that most rows share, products on all cores, and say so.

    An implementation that was never measured in that setting (the published geometry knows no Zipf law) keeps
    its own commonest one. Implementations that a figure or table of their own shows (`APART`) are left out.
    """
    whole, frame = len(frame), frame[~frame["implementation"].isin(_apart())]
    if frame.empty:
        return Slice(frame, "", [])
    common = _commonest(frame)
    kept = [
        _one_setting(rows, common) for _, rows in frame.groupby(["geometry", "implementation"], sort=False)
    ]
    chosen = pd.concat(kept).sort_index()
    notes = []
    if len(chosen) < whole:
        notes.append("Other settings and steps of the study stand in figures of their own and in the tables.")
    rows, threaded = _most_threads(chosen, "threads", ["geometry", "backend", "implementation"])
    if threaded:
        names = ", ".join(threaded)
        notes.append(f"On all cores: {names}; times with fewer threads stand in the tables.")
    return Slice(rows, _in_words(common), notes)


def _commonest(frame: pd.DataFrame) -> tuple[object, ...]:
    """Return the setting of most rows; of equals the first."""
    counts = frame.groupby(list(SETTINGS), sort=False).size()
    found: tuple[object, ...] = counts.index[int(counts.to_numpy().argmax())]
    return found


def _one_setting(rows: pd.DataFrame, wanted: tuple[object, ...]) -> pd.DataFrame:
    same = (rows[list(SETTINGS)] == list(wanted)).all(axis=1)
    if not same.any():
        same = (rows[list(SETTINGS)] == list(_commonest(rows))).all(axis=1)
    return rows[same]


def best_baseline(speedups: pd.DataFrame) -> pd.DataFrame:
    """Keep each variant's ratio over the baseline on all cores: nobody compares with a bridled NumPy."""
    return _most_threads(speedups, "baseline_threads", list(FACTORS))[0]


def _most_threads(rows: pd.DataFrame, column: str, names: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return each group's rows on all cores (0) or the most threads, and the implementations with several."""
    rank = rows[column].where(rows[column] > 0, float("inf"))
    group = [rows[name] for name in names]
    best = rank.groupby(group).transform("max")
    several = rows[column].groupby(group).transform("nunique") > 1
    return rows[rank == best], sorted(set(rows.loc[several, "implementation"]))


def _in_words(setting: tuple[object, ...]) -> str:
    value = dict(zip(SETTINGS, setting, strict=True))
    zipf = f"Zipf {value['zipf_exponent']:g}"
    law = zipf if value["distribution"] == "zipf" else value["distribution"]
    vocabulary = f"{value['vocabulary']:,}".replace(",", "\u202f")
    return f"V = {vocabulary}, E = {value['embedding']}, {value['dtype']}, {law} indices"


def by(frame: pd.DataFrame, column: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of each name in a column, in the order of their first rows."""
    for name, rows in frame.groupby(column, sort=False):
        yield str(name), rows


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries."""
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
