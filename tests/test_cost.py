"""What a study is going to cost, from records of known lengths."""

import dataclasses

import pytest
from onehot import cost
from onehot.variant import Variant

TAKE = Variant("corrected", "numpy", "take", 64, 1000, 30, "float32", "int64", "uniform", 0.0, "C", 1)
LOOP = dataclasses.replace(TAKE, implementation="loop_vstack")
CUPY = dataclasses.replace(TAKE, backend="cupy")
ON_DEVICE = {"numpy": False, "cupy": True}


def estimate(planned, present=(), earlier=()):
    return cost.estimate(planned, present, list(earlier), budget_seconds=0.4, on_device=ON_DEVICE)


def following(*lengths, variant=TAKE, gap=0.5):
    """Jobs that follow one another."""
    start = 0.0
    for number, length in enumerate(lengths):
        yield cost.Timed(variant, number, start, start + length)
        start += length + gap


def test_without_records_the_budget_and_a_start_up_are_counted():
    (line,) = estimate([(TAKE, 0), (TAKE, 1)])
    assert line.seconds == pytest.approx(2 * (0.4 + cost.START_UP_SECONDS[False]))
    assert (line.measured, line.waiting, line.source) == (0, 2, "budget")


def test_records_of_the_same_variant_are_believed_with_what_lies_between_jobs():
    (line,) = estimate([(TAKE, 3)], earlier=following(2.0, 3.0, 4.0, gap=0.7))
    assert line.seconds == pytest.approx(3.0 + 0.7)
    assert line.source == "records"


def test_another_implementation_is_estimated_from_its_backend():
    (line,) = estimate([(LOOP, 0)], earlier=following(2.0, 2.0))
    assert line.seconds == pytest.approx(2.5)
    assert line.source == "similar"


def test_another_backend_tells_nothing():
    (line,) = estimate([(CUPY, 0)], earlier=following(2.0, 2.0))
    assert line.seconds == pytest.approx(0.4 + cost.START_UP_SECONDS[True])
    assert line.source == "budget"


def test_what_is_measured_costs_nothing():
    (line,) = estimate([(TAKE, 0), (TAKE, 1)], present=[(TAKE, 0), (TAKE, 1)], earlier=following(2.0, 2.0))
    assert (line.measured, line.waiting, line.seconds, line.source) == (2, 0, 0, "")


def test_a_pause_of_the_study_is_no_start_up():
    earlier = following(1.0, 1.0, 1.0, gap=3600)
    assert cost.start_ups(earlier) == []


def test_skipped_variants_are_counted_by_reason():
    found = cost.skipped([(CUPY, "no driver"), (dataclasses.replace(CUPY, minibatch=1), "no driver")])
    assert found == [cost.Skipped("cupy", 2, "no driver")]


def test_the_text_says_jobs_time_and_reasons():
    lines = estimate([(TAKE, 0)], earlier=following(60.0, 60.0))
    text = cost.text("here", lines, [cost.Skipped("cupy", 2, "no driver")])
    assert "1 jobs to run on here, about 60 s one after the other" in text
    assert "not measured: 2 variants of cupy: no driver" in text


@pytest.mark.parametrize(("seconds", "text"), [(3, "3 s"), (600, "10 min"), (7200, "2.0 h")])
def test_durations_are_said_in_everyday_units(seconds, text):
    assert cost.duration_text(seconds) == text


def test_time_stamps_of_records_are_read():
    later, earlier = "2026-01-01T00:00:01.500000Z", "2026-01-01T00:00:00Z"
    assert cost.epoch_seconds(later) - cost.epoch_seconds(earlier) == pytest.approx(1.5)


def test_jobs_beside_the_sweep_are_counted_by_kind_from_records_or_by_a_stated_guess():
    jobs = [
        cost.Other("limits", "numpy", True, 8.0),
        cost.Other("limits", "numpy", False, None),
        cost.Other("headline", "cupy", False, None),
        cost.Other("ledger", "cupy", True, None),
    ]
    found = {(line.backend, line.implementation): line for line in cost.others(jobs)}
    assert found["numpy", "(limits)"] == cost.Line("numpy", "(limits)", 1, 1, 8.0, "similar")
    assert found["cupy", "(headline)"].seconds == cost.OTHER_SECONDS["headline"]
    assert found["cupy", "(headline)"].source == "guess" and found["cupy", "(ledger)"].seconds == 0
    assert "a guess" in cost.text("here", cost.others(jobs), [])
