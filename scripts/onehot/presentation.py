"""Tables as a reader meets them: CSV for programs; Markdown, LaTeX and HTML with units for people."""

import functools
import html
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from onehot import frames
from onehot.errors import StudyError
from onehot.variant import COLUMNS

NAMES = {
    "numpy": "NumPy",
    "cupy": "CuPy",
    "numba": "Numba",
    "torch_cpu": "torch on the CPU",
    "torch_cuda": "torch on the GPU",
    "jax_cpu": "JAX on the CPU",
    "jax_cuda": "JAX on the GPU",
}
"""Backends as a reader meets them."""

CONSTANT_COLUMNS_SHOWN = frozenset({"backend", "implementation", "clock", "minibatch"})
ABSENT = "–"


def seconds_text(seconds: Any) -> str:
    """Return a time with a unit that keeps one to three digits before the point."""
    if pd.isna(seconds):
        return ABSENT
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if abs(seconds) >= size or unit == "ns":
            return f"{significant(seconds / size)} {unit}"
    raise AssertionError


def significant(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits and no exponent in everyday ranges."""
    if value == 0 or pd.isna(value):
        return "0" if value == 0 else ABSENT
    if not 1e-3 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}".replace(",", " ") if "e" in text or abs(value) >= 10**digits else text


def interval_text(value: Any, low: Any, high: Any, text: Callable[[Any], str]) -> str:
    """Return a value with its interval, or with the remark that one process gives none."""
    if pd.isna(value):
        return ABSENT
    if pd.isna(low) or pd.isna(high):
        return f"{text(value)} (no interval)"
    return f"{text(value)} [{text(low)}, {text(high)}]"


def amount_text(value: Any, unit: str) -> str:
    """Return a limit in its unit: a time, bytes a second, or operations a second."""
    if unit == "seconds":
        return seconds_text(value)
    if unit == "bytes_per_second":
        return f"{significant(value / 1e9)} GB/s"
    return f"{significant(value / 1e9)} Gflop/s"


def _varying(frame: pd.DataFrame) -> list[str]:
    """Leave out factors that hold one value in the whole table: they say nothing a column wide."""
    present = [name for name in COLUMNS if name in frame]
    return [name for name in present if name in CONSTANT_COLUMNS_SHOWN or frame[name].nunique() > 1]


def _factors(names: list[str], row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: row[name] for name in names}
    if shown.get("threads") == 0:
        shown["threads"] = "all"
    if "backend" in shown:
        shown["backend"] = NAMES.get(shown["backend"], shown["backend"])
    return {name.replace("_", " "): value for name, value in shown.items()}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Median with interval, spread and counts, in human units."""
    names = _varying(frame)
    return pd.DataFrame(
        {
            **_factors(names, row),
            "clock": row["clock"].replace("_", ", "),
            "median [95 % interval]": interval_text(row["median"], row["low"], row["high"], seconds_text),
            "5 % to 95 %": f"{seconds_text(row['p5'])} to {seconds_text(row['p95'])}",
            "minimum": seconds_text(row["minimum"]),
            "processes": row["invocations"],
            "samples": row["samples"],
            "outliers": row["outliers"],
        }
        for row in frames.records(frame)
    )


def speedup(frame: pd.DataFrame) -> pd.DataFrame:
    """Each ratio beside the two times it is made of."""
    names = _varying(frame)
    return pd.DataFrame(
        {
            **_factors(names, row),
            "clock": row["clock"],
            "compared with": row["baseline"],
            "its time": seconds_text(row["baseline_seconds"]),
            "time": seconds_text(row["seconds"]),
            "speed-up [95 % interval]": interval_text(row["speedup"], row["low"], row["high"], significant),
            "verdict": row["verdict"],
        }
        for row in frames.records(frame)
    )


def crossover(frame: pd.DataFrame) -> pd.DataFrame:
    """One line an implementation."""
    names = _varying(frame)
    return pd.DataFrame(
        {
            **_factors(names, row),
            "clock": row["clock"],
            "NumPy threads": "all" if row["baseline_threads"] == 0 else row["baseline_threads"],
            "CuPy overtakes NumPy at minibatch": row["description"],
        }
        for row in frames.records(frame)
    )


def headline(frame: pd.DataFrame) -> pd.DataFrame:
    """Whole runs, beside the question's own numbers."""
    return pd.DataFrame(
        {
            "implementation": row["implementation"],
            "backend": NAMES.get(row["backend"], row["backend"]),
            "source": row["source"],
            "minibatches": row["minibatches"],
            "whole run": seconds_text(row["seconds"])
            if row["source"] != "extrapolated"
            else interval_text(row["seconds"], row["low"], row["high"], seconds_text),
            "a minibatch": seconds_text(row["seconds_per_minibatch"]),
            "remark": row["reason"] + _span(row),
        }
        for row in frames.records(frame)
    )


def _span(row: dict[str, Any]) -> str:
    """Say how far apart single samples lie: a whole run is one process, the interval is that of a median."""
    if row["source"] != "extrapolated":
        return ""
    return f"; its samples span {seconds_text(row['fastest'])} to {seconds_text(row['slowest'])}"


def cold_start(frame: pd.DataFrame) -> pd.DataFrame:
    """Stages of a fresh process as columns."""
    if frame.empty:
        return pd.DataFrame(columns=["backend", "implementation", "kernel cache"])
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in frames.records(frame):
        key = (NAMES.get(row["backend"], row["backend"]), row["implementation"], row["cache"])
        rows.setdefault(key, {})[row["stage"].replace("_", " ")] = seconds_text(row["median"])
    return pd.DataFrame(
        {"backend": key[0], "implementation": key[1], "kernel cache": key[2], **stages}
        for key, stages in rows.items()
    )


def limits(frame: pd.DataFrame) -> pd.DataFrame:
    """Show what this machine can do at best."""
    return pd.DataFrame(
        {
            "backend": NAMES.get(row["backend"], row["backend"]),
            "limit": row["name"].replace("_", " "),
            "value [95 % interval]": interval_text(
                row["value"], row["low"], row["high"], functools.partial(amount_text, unit=row["unit"])
            ),
            "note": row["note"],
        }
        for row in frames.records(frame)
    )


def environment(frame: pd.DataFrame) -> pd.DataFrame:
    """Provenance as it is."""
    return frame


def status(frame: pd.DataFrame) -> pd.DataFrame:
    """Show what became of each variant."""
    names = _varying(frame)
    return pd.DataFrame(
        {
            **_factors(names, row),
            "status": row["status"],
            "reason": row["reason"],
            "processes": row["invocations"],
            "implausible": row.get("implausible", ""),
        }
        for row in frames.records(frame)
    )


PRESENTED: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "headline": headline,
    "speedup": speedup,
    "crossover": crossover,
    "summary": summary,
    "cold_start": cold_start,
    "limits": limits,
    "environment": environment,
    "status": status,
}


def write(frame: pd.DataFrame, name: str, path: Path) -> None:
    """Write one table in the format that the path's ending names; an empty table says that it is.

    Raises
    ------
    StudyError
        No format has that ending.
    """
    if path.suffix == ".csv":
        text = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n", na_rep="")
        whole_or_absent(path, text.encode())
        return
    shown = PRESENTED[name](frame)
    if path.suffix == ".md":
        text = (
            shown.to_markdown(index=False, disable_numparse=True)
            if len(shown)
            else "Nothing was measured for this table."
        )
    elif path.suffix == ".tex":
        text = _latex(shown)
    elif path.suffix == ".html":
        text = _html(shown, name)
    else:
        raise StudyError(f"{path}: no table format {path.suffix!r}; known: .csv, .md, .tex, .html")
    whole_or_absent(path, (text.rstrip("\n") + "\n").encode())


def whole_or_absent(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it: a job that is killed leaves no half of one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def _latex(shown: pd.DataFrame) -> str:
    if not len(shown):
        return "% Nothing was measured for this table."
    unicode = {"µ": r"\textmu{}", "–": "--", "\u202f": r"\,", "×": r"$\times$"}
    text: str = shown.to_latex(index=False, escape=True, longtable=len(shown) > 45)
    for character, command in unicode.items():
        text = text.replace(character, command)
    return text


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 1rem; color: #1c1c1c; background: #fff }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th {{ text-align: left; position: sticky; top: 0; background: #fff; padding: .3rem .7rem }}
th {{ border-bottom: 2px solid #1c1c1c }}
td {{ border-bottom: 1px solid #ddd; padding: .25rem .7rem; white-space: nowrap }}
tr:hover td {{ background: #f3f6fa }}
</style></head><body>{body}</body></html>
"""


def _html(shown: pd.DataFrame, name: str) -> str:
    if not len(shown):
        body = "<p>Nothing was measured for this table.</p>"
    else:
        body = shown.to_html(index=False, border=0, escape=True, justify="left")
    return _PAGE.format(title=html.escape(name), body=body)
