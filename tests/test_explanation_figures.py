"""The explaining figures show what the tables hold, and say what is missing where they hold nothing."""

import dataclasses

import pandas as pd
import pytest
from onehot import explanation_figures, explanations, frames, tables
from onehot.figures import FIGURES
from onehot.implementations.ladder import LADDERS
from onehot.records import BackendRecord
from onehot.variant import CORRECTED, PUBLISHED
from test_explanations import ledger_record, limits_record, published_counts, results, variant

SEEN = {
    "numpy": (5.9e-3, 5.2e-3, 3.1e-3, 3.0e-3, 0.9e-3, 0.8e-3, 0.5e-3, 25e-6, 20e-6, 15e-6),
    "cupy": (67.5e-3, 39.8e-3, 28.2e-3, 16.5e-3, 4.37e-3, 4.34e-3, 71e-6, 33e-6, 14e-6, 12e-6),
}
NAMES = ("ladder", "prediction", "ledger", "training", "boundary")


def drawable(backends=("numpy", "cupy")):
    """Frames with a ladder as once seen on an H200, a ledger, and costs for a few predictions."""
    times = {
        variant(name, backend): seconds
        for backend in backends
        for (name, _), seconds in zip(LADDERS[PUBLISHED], SEEN[backend], strict=True)
    }
    trained = {"fancy_index": 2e-4, "scatter_add_at": 8e-3, "step_loop": 2e-1, "step_gather": 6e-2}
    times |= {variant(name, backend, CORRECTED): trained[name] for name in trained for backend in backends}
    times |= {variant("take", backend, CORRECTED, m=m): m * 1e-8 for backend in backends for m in (64, 2048)}
    rates = dict.fromkeys(
        ("copy_bandwidth", "copy_bandwidth_cached", "read_bandwidth", "write_bandwidth", "l2_read_bandwidth"),
        1e11,
    )
    limits = [limits_record(backend, take_few=5e-6, **rates) for backend in backends]
    free = [
        BackendRecord.model_validate(
            {
                "schema": 1,
                "kind": "backend",
                "status": "ok",
                "reason": "",
                "backend": backend,
                "free_bytes": size,
            }
        )
        for backend, size in (("numpy", 120 * 10**9), ("cupy", 140 * 10**9))
        if backend in backends
    ]
    ledgers = [
        ledger_record(variant("published_loop", "cupy"), published_counts(), counted_by=["cupti"]),
        ledger_record(variant("rung_take", "cupy"), absent={"cupti": "no ledger: not installed"}),
    ]
    found = results(times, limits=limits, backends=free, ledgers=ledgers)
    made = explanations.everything(found, tables.everything(found))
    typed = {
        name: frames._typed(pd.DataFrame(made.get(name)), columns) for name, columns in frames.SCHEMA.items()
    }
    return dataclasses.replace(frames.empty("here"), **{name: typed[name] for name in NAMES})


def texts(drawn):
    return " ".join(text.get_text() for axes in drawn.axes for text in axes.texts) + " ".join(
        text.get_text() for text in drawn.texts
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_is_registered_and_drawn_from_nothing(name, tmp_path):
    drawn = FIGURES[name](frames.empty("here"))
    drawn.savefig(tmp_path / "empty.png")
    assert "nothing measured" in texts(drawn)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backends", [("numpy",), ("cupy",), ("numpy", "cupy")])
def test_each_is_drawn_whatever_was_measured(name, backends, tmp_path):
    drawn = FIGURES[name](drawable(backends))
    drawn.savefig(tmp_path / "figure.png")
    assert "here" in texts(drawn)


def test_the_waterfall_has_a_bar_for_each_cause_on_each_backend():
    drawn = FIGURES["ladder"](drawable())
    for axes in drawn.axes:
        removed = [bar for bar in axes.patches if bar.get_gid() == "removed"]
        assert len(removed) == len(LADDERS[PUBLISHED]) - 1
        top = max(bar.get_x() + bar.get_width() for bar in removed)
        assert top == pytest.approx(
            max(bar.get_width() for bar in axes.patches if bar.get_gid() == "left"), rel=0.01
        )


def test_a_bar_reaches_from_the_time_with_the_cause_to_the_time_without():
    drawn = FIGURES["ladder"](drawable(("cupy",)))
    bars = [bar for bar in drawn.axes[1].patches if bar.get_gid() == "removed"]
    assert bars[0].get_x() == pytest.approx(39.8e-3, rel=0.01)
    assert bars[0].get_width() == pytest.approx(27.7e-3, rel=0.01)


def test_every_prediction_has_a_marker():
    shown = drawable()
    drawn = FIGURES["prediction"](shown)
    points = sum(
        len(line.get_xdata())
        for axes in drawn.axes
        for line in axes.lines
        if str(line.get_gid()).startswith("point:")
    )
    assert points == shown.prediction["predicted"].notna().sum() > 0


def test_a_count_of_none_stands_on_the_edge_and_an_absent_one_is_explained():
    drawn = FIGURES["ledger"](drawable())
    assert "not installed" in texts(drawn)
    counts = {line.get_gid(): line.get_xdata().tolist() for line in drawn.axes[0].lines}
    assert counts["kernels"] == [1797]


def test_the_question_is_marked_below_the_boundary():
    drawn = FIGURES["boundary"](drawable())
    for axes in drawn.axes:
        lines = {line.get_gid(): line for line in axes.lines}
        assert lines["question"].get_xydata().tolist() == [list(explanation_figures.QUESTION)]
        dense = dict(zip(*lines["one-hot"].get_data(), strict=True))
        assert dense[2048] > explanation_figures.QUESTION[1]
        assert dense[2**20] < explanation_figures.QUESTION[1]
