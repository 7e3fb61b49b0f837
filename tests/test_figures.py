"""Figures on made-up tables: nothing is dropped in silence, and the same tables give the same bytes."""

import dataclasses
import functools
import importlib
import itertools
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from docutils.core import publish_parts
from jinja2 import Environment, StrictUndefined
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from onehot import catalogue, figures, frames, theme
from onehot.frames import Frames

matplotlib.use("agg")

ROOT = Path(__file__).parent.parent
REPORT = ROOT / "workflow" / "report"

SIZES = (64, 256, 1024, 2048, 4096, 16384, 65536)
MODELS: dict[tuple[str, str], dict[str, Callable[[int], float]]] = {
    ("published", "numpy"): {"published_loop": lambda m: 6e-3, "published_gather": lambda m: 9e-5 + 5e-7 * m},
    ("published", "cupy"): {
        "published_loop": lambda m: 6.5e-2,
        "published_gather": lambda m: 7e-5 + 2e-10 * m,
    },
    ("corrected", "numpy"): {
        "loop_vstack": lambda m: 9e-6 * m + 7e-8 * m * m,
        "loop_list_stack": lambda m: 2.8e-6 * m,
        "loop_preallocated": lambda m: 2.5e-6 * m,
        "dense_dot": lambda m: 4e-4 * m,
        "sparse_dot": lambda m: 2e-5 + 6e-7 * m,
        "argmax_take": lambda m: 2.3e-5 * m,
        "fancy_index": lambda m: 2e-6 + 1.4e-7 * m,
        "take": lambda m: 1.5e-6 + 1.05e-7 * m,
        "take_out": lambda m: 1.2e-6 + 1.03e-7 * m,
    },
    ("corrected", "cupy"): {
        "loop_vstack": lambda m: 1.1e-4 * m,
        "loop_list_stack": lambda m: 1.4e-5 * m,
        "loop_preallocated": lambda m: 1.5e-5 * m,
        "dense_dot": lambda m: 3e-5 + 7e-7 * m,
        "sparse_dot": lambda m: 7e-5 + 5e-9 * m,
        "argmax_take": lambda m: 4e-5 + 6e-8 * m,
        "fancy_index": lambda m: 1.8e-5 + 1.7e-9 * m,
        "take": lambda m: 1.5e-5 + 1.7e-9 * m,
        "take_out": lambda m: 1.2e-5 + 1.7e-9 * m,
    },
}
LIMIT = 1.0
QUESTION, MINIBATCHES = 2048, 1570
SYNCHRONISES = ("published_loop", "loop_vstack", "loop_list_stack", "loop_preallocated")


def factors(
    geometry: str, backend: str, implementation: str, minibatch: int, threads: int = 1
) -> dict[str, Any]:
    sizes = {"minibatch": minibatch, "vocabulary": 50000, "embedding": 300}
    types = {"dtype": "float32", "index_dtype": "int64", "distribution": "uniform", "zipf_exponent": 0.0}
    names = {"geometry": geometry, "backend": backend, "implementation": implementation}
    return {**names, **sizes, **types, "layout": "C", "threads": threads}


def clocks_of(backend: str, implementation: str, seconds: float) -> dict[str, float]:
    found = {"latency": seconds * 1.02 + (5e-6 if backend == "cupy" else 0), "throughput": seconds}
    if backend == "cupy":
        found["enqueue"] = found["latency"] * 0.99 if implementation in SYNCHRONISES else min(seconds, 2.5e-5)
        if implementation not in SYNCHRONISES:
            found |= {"device_cold": seconds * 0.8, "device_hot": seconds * 0.65}
    return found


@functools.cache
def made_up(
    backends: tuple[str, ...] = ("numpy", "cupy"),
    sizes: tuple[int, ...] = SIZES,
    invocations: int = 5,
    samples: int = 30,
) -> Frames:
    """Return tables of a study that went as planned, like those of an H200."""
    status, summary, variants, measured = [], [], [], []
    noise = np.random.default_rng(7)
    for variant, seconds in modelled(sizes):
        fate, reason = _fate(variant["backend"] in backends, seconds)
        done = invocations if fate == "ok" else 0
        status.append({**variant, "status": fate, "reason": reason, "invocations": done})
        if not done:
            continue
        for clock, value in clocks_of(variant["backend"], variant["implementation"], seconds).items():
            summary.append({**variant, "clock": clock, **_estimate(value, invocations, samples)})
        if variant["minibatch"] == QUESTION or len(sizes) == 1:
            measured.append(_samples(noise, len(variants), seconds, invocations, samples))
        variants.append({"variant": len(variants), **variant})
    tables = {
        "summary": summary,
        "status": status,
        "variants": variants,
        **compared(summary),
        "headline": full_runs(summary),
        "limits": [row for row in LIMITS if row["backend"] in backends],
    }
    return dataclasses.replace(
        frames.empty("h200", 0.95),
        measurements=pd.concat(measured, ignore_index=True),
        **{name: typed(name, rows) for name, rows in tables.items()},
    )


def modelled(sizes: Iterable[int]) -> Iterable[tuple[dict[str, Any], float]]:
    """Yield every variant and its seconds; NumPy's product with one thread and with all cores."""
    for (geometry, backend), models in MODELS.items():
        for name, model in models.items():
            for size in sizes:
                for threads in (1, 0) if (name, backend) == ("dense_dot", "numpy") else (1,):
                    variant = factors(geometry, backend, name, size, threads)
                    yield variant, model(size) * (0.55 if threads == 0 else 1)


def _fate(there: bool, seconds: float) -> tuple[str, str]:
    if not there:
        return "skipped", "no CUDA driver is installed"
    if seconds > LIMIT:
        return "skipped", f"one call is predicted to take {seconds:.3g} s, the limit is {LIMIT:g} s"
    return "ok", ""


def _estimate(value: float, invocations: int, samples: int) -> dict[str, Any]:
    wide = 0.02 if invocations > 1 else math.nan
    interval = {"median": value, "low": value * (1 - wide), "high": value * (1 + wide)}
    counts = {"invocations": invocations, "samples": invocations * samples, "outliers": 0}
    return {**interval, "p5": value * 0.98, "p95": value * 1.1, "minimum": value * 0.97, **counts}


LIMITS = [
    {"backend": "numpy", "name": "copy_bandwidth", "unit": "bytes_per_second", "value": 1.1e10},
    {"backend": "cupy", "name": "copy_bandwidth", "unit": "bytes_per_second", "value": 4.24e12},
    {"backend": "cupy", "name": "launch", "unit": "seconds", "value": 4.05e-6},
]


def _samples(
    noise: np.random.Generator, variant: int, seconds: float, invocations: int, samples: int
) -> pd.DataFrame:
    parts = []
    for invocation in range(invocations):
        values = (
            seconds
            * (1 + 0.03 * noise.standard_normal())
            * np.exp(0.01 * noise.standard_exponential(samples))
        )
        values[3] *= 1.4
        outlier = np.arange(samples) == 3
        columns = {
            "variant": variant,
            "invocation": invocation,
            "clock": "throughput",
            "sample": np.arange(samples),
        }
        parts.append(pd.DataFrame({**columns, "seconds": values, "outlier": outlier.astype(int)}))
    return pd.concat(parts)


def compared(summary: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the ratios over the same implementation on NumPy, and their crossovers."""
    rows = [row for row in summary if row["clock"] == "throughput"]
    ratios: list[dict[str, Any]] = []
    for row, base in itertools.product(rows, rows):
        same = all(row[name] == base[name] for name in ("implementation", "minibatch"))
        if same and (row["backend"], base["backend"]) == ("cupy", "numpy"):
            ratios.append(
                {**row, **_ratio(base["median"] / row["median"]), "baseline_threads": base["threads"]}
            )
    keys = ["implementation", "baseline_threads"]
    groups = pd.DataFrame(ratios, columns=[*frames.SCHEMA["speedup"]]).groupby(keys)
    return {"speedup": ratios, "crossover": [_crossover(group) for _, group in groups]}


def _ratio(value: float) -> dict[str, Any]:
    verdict = "inconclusive" if 0.9 < value < 1.15 else "faster" if value > 1 else "slower"
    interval = {"speedup": value, "low": value * 0.95, "high": value * 1.05}
    return {"baseline": "NumPy, same implementation", **interval, "verdict": verdict}


def _crossover(group: pd.DataFrame) -> dict[str, Any]:
    slower, faster = group[group["speedup"] < 1], group[group["speedup"] > 1]
    kind = "never" if faster.empty else "always_faster" if slower.empty else "crosses"
    low, high = slower["minibatch"].max(), faster["minibatch"].min()
    first = group.iloc[0].to_dict()
    return {**first, "kind": kind, "minibatch": math.sqrt(low * high), "low": low, "high": high}


def full_runs(summary: list[dict[str, Any]]) -> list[dict[str, Any]]:
    loop = {"implementation": "published_loop", "source": "published", "status": "ok"}
    found = [
        {**loop, "backend": "numpy", "seconds": 16.55},
        {**loop, "backend": "cupy", "seconds": 152.15},
    ]
    for row in summary:
        wanted = row["implementation"] in ("published_loop", "published_gather", "fancy_index")
        if wanted and row["clock"] == "throughput" and row["minibatch"] == QUESTION:
            same = {"backend": row["backend"], "implementation": row["implementation"], "status": "ok"}
            total, low, high = (row[name] * MINIBATCHES for name in ("median", "low", "high"))
            found.append({**same, "source": "measured", "seconds": total * 1.01})
            found.append({**same, "source": "extrapolated", "seconds": total, "low": low, "high": high})
    sizes = {"minibatch": QUESTION, "minibatches": MINIBATCHES}
    return [{**row, **sizes, "seconds_per_minibatch": row["seconds"] / MINIBATCHES} for row in found]


def typed(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    return frames._typed(pd.DataFrame(rows), frames.SCHEMA[name])


# What a picture says -----------------------------------------------------------------------------


def words(figure: Figure) -> str:
    """All text of a figure, in one line, with ordinary spaces."""
    return " ".join(" ".join(text.get_text().split()) for text in figure.findobj(Text) if text.get_visible())


def with_gid(figure: Figure, start: str) -> list[Any]:
    return [artist for artist in figure.findobj() if str(artist.get_gid() or "").startswith(start)]


def marks(figure: Figure, start: str) -> int:
    """Points drawn by the lines of that name."""
    return sum(len(np.atleast_1d(line.get_xdata())) for line in with_gid(figure, start))


def throughput(known: Frames) -> pd.DataFrame:
    rows = known.summary[known.summary["clock"] == "throughput"]
    return rows[
        (rows["implementation"] != "dense_dot") | (rows["backend"] == "cupy") | (rows["threads"] == 0)
    ]


@pytest.fixture(scope="module")
def study() -> Frames:
    return made_up()


def changed(known: Frames, table: str, where: "pd.Series[bool]", column: str, value: float) -> Frames:
    frame = getattr(known, table).copy()
    frame.loc[where, column] = value
    return dataclasses.replace(known, **{table: frame})


OWN = ("headline", "time", "speedup", "clocks", "spread")

CASES: dict[str, Callable[[], Frames]] = {
    "everything": made_up,
    "no GPU": lambda: made_up(backends=("numpy",)),
    "no CPU, one of each": lambda: made_up(backends=("cupy",), sizes=(2048,), invocations=1, samples=4),
    "nothing": lambda: frames.empty("h200"),
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("case", CASES)
def test_every_figure_comes_out_names_the_machine_and_stays_on_its_page(case: str, name: str) -> None:
    drawn = figures.FIGURES[name](CASES[case]())
    assert "h200" in words(drawn)
    FigureCanvasAgg(drawn).draw()
    page, hidden = drawn.bbox.padded(1), not_drawn(drawn)
    for text in set(drawn.findobj(Text)) - hidden:
        box = text.get_window_extent()
        if text.get_visible() and text.get_text() and box.width:
            assert text.get_size() >= 8, text
            assert page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1), text


def not_drawn(figure: Figure) -> set[Text]:
    """Text of unused panels and labels of ticks beyond the limits: they exist all the same."""
    hidden = {text for axes in figure.axes if not axes.get_visible() for text in axes.findobj(Text)}
    for axes in figure.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in (*axis.majorTicks, *axis.minorTicks):
                if not min(limits) <= tick.get_loc() <= max(limits):
                    hidden |= {tick.label1, tick.label2}
    return hidden


@pytest.mark.parametrize("name", ["time", "speedup"])
def test_labels_beside_lines_do_not_overlap(study: Frames, name: str) -> None:
    drawn = figures.FIGURES[name](study)
    FigureCanvasAgg(drawn).draw()
    boxes = [Text.get_window_extent(text) for text in with_gid(drawn, "label:")]
    assert len(boxes) > 10
    for first, second in itertools.combinations(boxes, 2):
        shared = Bbox.intersection(first, second)
        assert shared is None or shared.height < 3  # the leading between two lines of type


def test_time_draws_every_measured_point(study: Frames) -> None:
    drawn = figures.FIGURES["time"](study)
    assert marks(drawn, "line:") == len(throughput(study))
    assert "loop_vstack from m = 4096" in words(drawn)
    assert {artist.get_gid() for artist in with_gid(drawn, "bound:")} == {
        "bound:copy of the result",
        "bound:one launch",
    }


def test_numpy_and_cupy_differ_in_grey(study: Frames) -> None:
    drawn = figures.FIGURES["time"](study)
    for line in with_gid(drawn, "line:"):
        numpy = line.get_gid().startswith("line:numpy")
        assert (line.get_markerfacecolor() == "white") == numpy
        assert (line.get_linestyle() == "-") != numpy


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_a_log_axis_cannot_show_leaves_a_cross_and_a_note(study: Frames, value: float) -> None:
    rows = study.summary
    where = (rows["implementation"] == "take") & (rows["backend"] == "cupy") & (rows["minibatch"] == 256)
    broken = changed(study, "summary", where, "median", value)
    drawn = figures.FIGURES["time"](broken)
    assert marks(drawn, "line:") + marks(drawn, "cross:") == len(throughput(study))
    assert marks(drawn, "cross:take") == 1
    assert "take on CuPy at m = 256" in words(drawn)


def test_a_zero_ratio_leaves_a_cross_and_a_note(study: Frames) -> None:
    where = (study.speedup["implementation"] == "take") & (study.speedup["minibatch"] == 64)
    drawn = figures.FIGURES["speedup"](changed(study, "speedup", where, "speedup", 0.0))
    assert marks(drawn, "cross:take") == 1
    assert "take on CuPy at m = 64" in words(drawn)


def test_a_clock_without_a_time_leaves_a_cross_and_a_note(study: Frames) -> None:
    where = (study.summary["implementation"] == "take") & (study.summary["clock"] == "enqueue")
    drawn = figures.FIGURES["clocks"](changed(study, "summary", where, "median", 0.0))
    assert marks(drawn, "cross:enqueue") == 1
    assert "take on CuPy at m = 2048" in words(drawn)


def test_samples_without_a_time_are_counted_in_a_note(study: Frames) -> None:
    where = pd.Series(study.measurements.index.isin([0, 5]), index=study.measurements.index)
    drawn = figures.FIGURES["spread"](changed(study, "measurements", where, "seconds", 0.0))
    assert "2 of 150 samples are zero or missing" in words(drawn)


def test_every_sample_is_drawn_outliers_too(study: Frames) -> None:
    drawn = figures.FIGURES["spread"](study)
    assert marks(drawn, "samples") + marks(drawn, "outliers") == 4 * 5 * 30
    assert marks(drawn, "outliers") == 4 * 5
    assert "5 flagged beyond the edge" in words(drawn)


def test_samples_are_never_joined_by_a_line(study: Frames) -> None:
    drawn = figures.FIGURES["spread"](study)
    assert {line.get_linestyle() for line in with_gid(drawn, "samples")} == {"None"}


@pytest.mark.parametrize("name", OWN)
def test_a_backend_that_was_not_measured_is_named_with_its_reason(name: str) -> None:
    said = words(figures.FIGURES[name](made_up(backends=("numpy",))))
    assert "nothing measured on CuPy: no CUDA driver is installed" in said


@pytest.mark.parametrize("name", OWN)
def test_a_study_without_data_says_so(name: str) -> None:
    said = words(figures.FIGURES[name](frames.empty("h200")))
    assert "nothing measured" in said


@pytest.mark.parametrize("name", ["time", "speedup"])
def test_one_minibatch_is_drawn_as_markers_and_says_so(name: str) -> None:
    drawn = figures.FIGURES[name](made_up(sizes=(2048,)))
    assert marks(drawn, "line:") == (11 if name == "speedup" else 22)
    assert "One minibatch size only" in words(drawn)


@pytest.mark.parametrize("name", ["time", "speedup", "clocks"])
def test_one_invocation_has_no_band_and_says_so(name: str) -> None:
    known = made_up(invocations=1)
    known = changed(known, "speedup", known.speedup["speedup"] > 0, "low", math.nan)
    drawn = figures.FIGURES[name](known)
    assert not with_gid(drawn, "band:")
    assert "No interval: one process each" in words(drawn)


def test_an_interval_of_many_decades_does_not_flatten_the_lines(study: Frames) -> None:
    where = study.summary["implementation"] == "take"
    wide = changed(changed(study, "summary", where, "low", 1e-12), "summary", where, "high", 1e6)
    drawn = figures.FIGURES["time"](wide)
    assert max(axes.get_ylim()[1] for axes in drawn.axes) < 100
    assert "One that reaches the edge goes on beyond it" in words(drawn)


def test_one_invocation_is_said_beside_its_samples() -> None:
    assert "one process only" in words(figures.FIGURES["spread"](made_up(invocations=1)))


def test_crossovers_are_marked_and_the_others_named(study: Frames) -> None:
    drawn = figures.FIGURES["speedup"](study)
    crossing = study.crossover[(study.crossover["kind"] == "crosses")]
    assert {artist.get_gid() for artist in with_gid(drawn, "crossover:")} == {
        f"crossover:{name}" for name in crossing["implementation"]
    }
    assert "CuPy overtakes at no size measured: published_loop" in words(drawn)
    assert with_gid(drawn, "reference")


def test_inconclusive_ratios_have_open_markers(study: Frames) -> None:
    where = study.speedup["implementation"] == "take_out"
    frame = study.speedup.copy()
    frame.loc[where, "verdict"] = "inconclusive"
    drawn = figures.FIGURES["speedup"](dataclasses.replace(study, speedup=frame))
    assert marks(drawn, "inconclusive:take_out") == len(SIZES)
    assert "Open marker: inconclusive" in words(drawn)


def test_only_numpy_on_all_cores_is_the_baseline(study: Frames) -> None:
    drawn = figures.FIGURES["speedup"](study)
    [line] = with_gid(drawn, "line:cupy:dense_dot")
    rows = study.speedup[
        (study.speedup["implementation"] == "dense_dot") & (study.speedup["baseline_threads"] == 0)
    ]
    assert list(line.get_ydata()) == list(rows["speedup"])


def test_headline_keeps_what_was_published_beside_a_missing_run() -> None:
    drawn = figures.FIGURES["headline"](made_up(backends=("numpy",)))
    assert "152.15 s" in words(drawn)
    assert marks(drawn, "point:published") == 2
    assert "loop takes" in words(drawn)


def test_headline_compares_runs_of_different_length_by_the_minibatch(study: Frames) -> None:
    where = study.headline["source"] == "measured"
    said = words(figures.FIGURES["headline"](changed(study, "headline", where, "minibatches", 20)))
    assert "time per minibatch" in said
    assert "differ in their number of minibatches" in said


def test_headline_shows_why_a_run_failed(study: Frames) -> None:
    frame = study.headline.copy()
    where = (
        (frame["source"] == "measured")
        & (frame["backend"] == "cupy")
        & (frame["implementation"] == "published_loop")
    )
    frame.loc[where, ["seconds", "reason"]] = [math.nan, "out of memory"]
    drawn = figures.FIGURES["headline"](dataclasses.replace(study, headline=frame))
    assert "× out of memory" in words(drawn)


def test_no_bound_is_drawn_where_none_was_measured(study: Frames) -> None:
    drawn = figures.FIGURES["time"](dataclasses.replace(study, limits=study.limits.iloc[:0]))
    assert not with_gid(drawn, "bound:")
    assert "No bound for" in words(drawn)


def test_further_sweeps_do_not_mix_with_the_main_one(study: Frames) -> None:
    other = study.summary[study.summary["implementation"] == "take"].assign(dtype="float64")
    drawn = figures.FIGURES["time"](dataclasses.replace(study, summary=pd.concat([study.summary, other])))
    assert marks(drawn, "line:") == len(throughput(study))
    assert "Other settings and steps of the study stand" in words(drawn)


def test_an_implementation_means_one_look_in_every_figure() -> None:
    known = {name for models in MODELS.values() for name in models}
    assert known <= set(theme.LOOKS)
    for models in MODELS.values():
        assert len({theme.look(name) for name in models}) == len(models)
    # One panel of the time figure: what NumPy and CuPy are compared in.
    assert len({theme.look(name).colour for models in MODELS.values() for name in models}) <= 10
    assert (
        len(set(theme.LOOKS.values())) >= len(theme.LOOKS) - 2
    )  # the loops, and the decodes, share one each
    assert theme.look("a_later_kernel") == theme.look("a_later_kernel")


def test_labels_are_spread_apart_and_stay_near() -> None:
    placed = theme.spread_apart([10, 11, 12, 50, 99], 10, 0, 100)
    assert placed == [1, 11, 21, 50, 99]
    assert theme.spread_apart([99, 99, 99], 10, 0, 100) == [80, 90, 100]
    assert theme.spread_apart([], 10, 0, 100) == []


# What is read ------------------------------------------------------------------------------------


def test_minibatches_sort_as_numbers_and_names_stay_names(tmp_path: Path) -> None:
    rows = [
        factors("corrected", "numpy", name, 1) | {"minibatch": size}
        for name in ("None", "NA")
        for size in ("256", "16", "2048")
    ]
    pd.DataFrame([{**row, "clock": "throughput", "median": ""} for row in rows]).to_csv(
        tmp_path / "summary.csv", index=False
    )
    known = frames.load(tmp_path, "h200", 0.95)
    assert set(known.summary["implementation"]) == {"None", "NA"}
    assert sorted(set(known.summary["minibatch"])) == [16, 256, 2048]
    assert known.summary["median"].isna().all()


def test_a_table_that_is_absent_or_has_no_row_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("backend,name,kind,unit,value,low,high\n")
    (tmp_path / "status.csv").write_text("")
    known = frames.load(tmp_path, "h200", 0.95)
    for name, columns in frames.SCHEMA.items():
        assert list(getattr(known, name).columns) == list(columns)
        assert getattr(known, name).empty


def test_the_script_draws_every_figure_of_the_catalogue() -> None:
    importlib.import_module("figures")  # registers what it draws
    assert set(figures.FIGURES) == {item.name for item in catalogue.FIGURES}
    assert set(catalogue.DRAWN_TABLES) == set(frames.SCHEMA)


ENDINGS = {name: ("svg", "pdf", "png") if name == "spread" else ("svg",) for name in OWN}


def draw_all(folder: Path) -> None:
    folder.mkdir()
    for name, endings in ENDINGS.items():
        drawn = figures.FIGURES[name](made_up())
        for ending in endings:
            theme.save(drawn, folder / f"{name}.{ending}")


def test_the_same_tables_give_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    code = "import sys, test_figures; test_figures.draw_all(test_figures.Path(sys.argv[1]))"
    search = os.pathsep.join((str(ROOT / "scripts"), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "7"}
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "other")], env=environment)
    draw_all(tmp_path / "here")
    assert other.wait() == 0
    drawn = sorted((tmp_path / "here").iterdir())
    assert len(drawn) == len(OWN) + 2
    assert [
        path.name for path in drawn if path.read_bytes() != (tmp_path / "other" / path.name).read_bytes()
    ] == []


# Captions ----------------------------------------------------------------------------------------

CAPTIONS = [
    *[REPORT / "tables" / f"{item.name}.rst" for item in catalogue.TABLES],
    *[REPORT / "figures" / f"{item.name}.rst" for item in catalogue.FIGURES],
]
TARGETS = [
    *[f"{item.name}.html" for item in catalogue.TABLES if "html" in item.formats],
    *[f"{item.name}.svg" for item in catalogue.FIGURES],
    *{item.category for item in (*catalogue.TABLES, *catalogue.FIGURES)},
]


def rendered(path: Path, config: dict[str, Any]) -> str:
    """A caption as Snakemake renders it, with its links, but refusing what is undefined."""

    class Job:
        input = output = log = params = ("a",)
        wildcards = type("Wildcards", (), {"results": "results/h200"})
        threads, resources, rule = 1, {}, "figures"

    Job.config = config  # type: ignore[attr-defined]
    links = "\n\n" + "\n".join(f".. _{target}: javascript:void(0)" for target in TARGETS) + "\n"
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return environment.from_string(path.read_text() + links).render(snakemake=Job, categories={}, files=[])


@pytest.mark.parametrize(
    "path", [*CAPTIONS, REPORT / "workflow.rst"], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
@pytest.mark.parametrize("config", [{}, {"machine": "h200"}], ids=["plain", "named"])
def test_captions_render_without_an_undefined_variable_or_a_broken_link(
    path: Path, config: dict[str, Any]
) -> None:
    text = rendered(path, config)
    body = publish_parts(text, writer="html", settings_overrides={"halt_level": 2, "report_level": 5})["body"]
    assert len(body) > 60
    assert "problematic" not in body


@pytest.mark.parametrize(
    "path", [*CAPTIONS, REPORT / "workflow.rst"], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_captions_hold_no_measured_number(path: Path) -> None:
    assert not re.search(r"\d\s*(s|ms|µs|us|ns|[GTM]i?B|×|x|%|fold|times)\b", path.read_text())


def test_no_caption_is_left_over() -> None:
    assert set(REPORT.glob("*/*.rst")) == set(CAPTIONS)
