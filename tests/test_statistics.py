"""Medians, ratios and crossovers: what their intervals claim, and whether it is true."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onehot.errors import StudyError
from onehot.statistics import (
    Crossover,
    InvalidRatiosError,
    InvalidSamplesError,
    Ratio,
    crossover,
    geometric_mean,
    outliers,
    speedup,
    summarise,
    variance_components,
)
from scipy.stats import t

QUICK = {"seed": 7, "resamples": 200}
# 32 bits, so that no two samples fall together when both are multiplied
SECONDS = st.floats(2**-23, 8, width=32)
INVOCATION = st.lists(SECONDS, min_size=1, max_size=12)
MEASUREMENT = st.lists(INVOCATION, min_size=1, max_size=6)
SEVERAL = st.lists(INVOCATION, min_size=2, max_size=6)


def simulate(rng, invocations, *, samples=40, between=0.05, within=0.03, median=1e-5):
    """A measurement whose processes differ: log-normal between, right-skewed within, medians known."""
    levels = between * rng.standard_normal((invocations, 1))
    noise = within * (rng.exponential(size=(invocations, samples)) - math.log(2))
    return list(median * np.exp(levels + noise))


def coverage(invocations, *, sets=600, **shape):
    rng = np.random.default_rng((2024, invocations))
    hits = 0
    for seed in range(sets):
        estimate = summarise(simulate(rng, invocations, **shape), seed=seed, resamples=400)
        hits += estimate.low <= 1e-5 <= estimate.high
    return hits / sets


def pooled_coverage(invocations, *, sets=200):
    """Coverage of the percentile bootstrap that takes every sample for an independent one."""
    rng = np.random.default_rng((2024, invocations))
    hits = 0
    for _ in range(sets):
        pool = np.concatenate(simulate(rng, invocations))
        medians = np.median(pool[rng.integers(0, pool.size, (200, pool.size))], axis=1)
        low, high = np.quantile(medians, [0.025, 0.975])
        hits += low <= 1e-5 <= high
    return hits / sets


# ---------------------------------------------------------------- coverage


@pytest.mark.parametrize("invocations", [3, 5, 10])
def test_interval_covers_about_95_percent_when_processes_differ(invocations):
    assert 0.935 <= coverage(invocations) <= 0.985


@pytest.mark.parametrize("invocations", [3, 5, 10])
def test_a_pooled_bootstrap_claims_95_percent_and_covers_about_a_third(invocations):
    assert 0.2 <= pooled_coverage(invocations) <= 0.6


def test_two_invocations_are_covered_too():
    assert coverage(2, sets=500) >= 0.94


def test_interval_is_wide_rather_than_narrow_when_processes_do_not_differ():
    assert coverage(5, sets=500, between=0.0) >= 0.95


@pytest.mark.parametrize(("baseline", "candidate"), [(3, 3), (5, 5), (3, 10), (10, 10)])
def test_interval_of_a_speedup_covers_about_95_percent(baseline, candidate):
    rng = np.random.default_rng((2025, baseline, candidate))
    hits = 0
    for seed in range(300):
        slow = simulate(rng, baseline, median=3e-5)
        fast = simulate(rng, candidate, between=0.02)
        ratio = speedup(slow, fast, seed=seed, resamples=400)
        hits += ratio.low <= 3.0 <= ratio.high
    assert 0.925 <= hits / 300 <= 0.99


def test_equal_variants_are_rarely_called_faster_or_slower():
    rng = np.random.default_rng(2026)
    verdicts = [speedup(simulate(rng, 5), simulate(rng, 5), **QUICK).verdict for _ in range(400)]
    assert verdicts.count("inconclusive") / 400 >= 0.93


def test_two_single_samples_have_the_student_interval():
    estimate = summarise([[1.0], [math.exp(0.02)]], seed=1, resamples=20_000)
    assert math.log(estimate.high / estimate.median) == pytest.approx(t.ppf(0.975, 1) * 0.02 / 2, rel=0.02)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 3, 3), (4, 7, 10), (1, 6, 25)])
def test_two_random_numbers_stand_for_a_resample_of_every_sample(sizes):
    rng = np.random.default_rng(11)
    data = [rng.lognormal(0.0, 0.1, size) for size in sizes]
    drawn = rng.integers(0, 3, (4000, 3))
    medians = [[np.median(rng.choice(data[i], sizes[i])) for i in row] for row in drawn]
    expected = t.ppf(0.975, 2) * np.std(np.log(np.median(medians, axis=1)))
    estimate = summarise(data, seed=1, resamples=20_000)
    assert math.log(estimate.high / estimate.median) == pytest.approx(expected, rel=0.04)


# ---------------------------------------------------------------- the estimate


def test_median_is_that_of_invocations_not_of_pooled_samples():
    quiet, other, noisy = [1.0, 1.0], [2.0, 2.0], [9.0] * 500
    assert summarise([quiet, other, noisy], **QUICK).median == 2.0


def test_summary_counts_and_percentiles():
    estimate = summarise([np.arange(1.0, 101.0), np.arange(1.0, 101.0)], **QUICK)
    assert (estimate.minimum, estimate.p5, estimate.median, estimate.p95) == (1.0, 5.0, 50.5, 95.0)
    assert (estimate.invocations, estimate.samples) == (2, 200)


def test_one_invocation_has_no_interval():
    estimate = summarise([[1.0, 1.1, 1.2] * 50], **QUICK)
    assert estimate.median == 1.1
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)


def test_one_sample_in_each_process_is_enough_for_an_interval():
    estimate = summarise([[1.0], [1.1], [1.2]], **QUICK)
    assert 0.0 < estimate.low < 1.1 < estimate.high < math.inf


def test_wider_level_gives_wider_interval():
    data = simulate(np.random.default_rng(1), 5)
    narrow, wide = summarise(data, level=0.8, **QUICK), summarise(data, level=0.99, **QUICK)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_wildly_different_processes_do_not_overflow():
    estimate = summarise([[1e-9], [1e9]], level=0.9999, **QUICK)
    assert (estimate.low, estimate.high) == (0.0, math.inf)


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not():
    data = simulate(np.random.default_rng(2), 5)
    first, again, other = (repr(asdict(summarise(data, seed=seed))) for seed in (1, 1, 2))
    assert first == again != other


def test_samples_are_left_as_they_were():
    data = [np.array([3.0, 1.0, 2.0]), np.array([2.0, 1.0])]
    summarise(data, **QUICK)
    assert [invocation.tolist() for invocation in data] == [[3.0, 1.0, 2.0], [2.0, 1.0]]


@given(MEASUREMENT)
def test_interval_holds_the_estimate_and_percentiles_enclose_it(data):
    estimate = summarise(data, **QUICK)
    assert estimate.minimum <= estimate.p5 <= estimate.median <= estimate.p95
    if len(data) > 1:
        assert 0.0 <= estimate.low <= estimate.median <= estimate.high


@settings(max_examples=50)
@given(SEVERAL, st.floats(1e-3, 1e3))
def test_summary_scales_with_the_unit(data, factor):
    plain, scaled = summarise(data, **QUICK), summarise([np.array(x) * factor for x in data], **QUICK)
    for name in ("median", "low", "high", "minimum"):
        expected = getattr(plain, name) * factor
        assert getattr(scaled, name) == pytest.approx(expected, rel=1e-6), name


@settings(max_examples=50)
@given(MEASUREMENT, st.randoms())
def test_order_of_invocations_and_samples_does_not_matter(data, random):
    shuffled = [random.sample(x, len(x)) for x in random.sample(data, len(data))]
    assert repr(summarise(shuffled, **QUICK)) == repr(summarise(data, **QUICK))


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("bad", [0.0, -2e-6, math.nan, math.inf, -math.inf])
def test_a_sample_that_is_no_time_is_refused_by_name(bad):
    with pytest.raises(InvalidSamplesError, match=f"sample 1 of invocation 2 is {bad!r}"):
        summarise([[1.0], [1.0], [1.0, bad]], **QUICK)


@pytest.mark.parametrize("shapeless", [[], [[]], [1.0, 2.0], [[[1.0]]]])
def test_a_measurement_of_another_shape_is_refused(shapeless):
    with pytest.raises(InvalidSamplesError, match="at least one"):
        summarise(shapeless, **QUICK)


@pytest.mark.parametrize("setting", [{"level": 95}, {"level": 0.0}, {"resamples": 0}])
def test_a_setting_out_of_range_is_refused(setting):
    with pytest.raises(StudyError, match=next(iter(setting))):
        summarise([[1.0], [1.0]], **{**QUICK, **setting})


# ---------------------------------------------------------------- ratios


def test_verdict_follows_the_interval():
    rng = np.random.default_rng(3)
    slow, fast = simulate(rng, 5, median=2e-5), simulate(rng, 5)
    assert speedup(slow, fast, **QUICK).verdict == "faster"
    assert speedup(fast, slow, **QUICK).verdict == "slower"
    assert speedup(fast, fast, **QUICK).verdict == "inconclusive"


@pytest.mark.parametrize("sides", [(1, 5), (5, 1), (1, 1)])
def test_one_invocation_on_either_side_is_inconclusive(sides):
    rng = np.random.default_rng(4)
    ratio = speedup(simulate(rng, sides[0], median=1.0), simulate(rng, sides[1]), **QUICK)
    assert math.isnan(ratio.low)
    assert math.isnan(ratio.high)
    assert ratio.verdict == "inconclusive"


def test_interval_of_a_ratio_is_wider_than_that_of_either_side():
    data = simulate(np.random.default_rng(5), 5), simulate(np.random.default_rng(6), 5)
    sides = [summarise(side, **QUICK) for side in data]
    widest = max(math.log(side.high / side.median) for side in sides)
    ratio = speedup(*data, **QUICK)
    assert widest * 0.8 < math.log(ratio.high / ratio.value) < 2 * widest


def test_a_noiseless_side_leaves_the_interval_to_the_other():
    noisy, constant = simulate(np.random.default_rng(7), 4), [[1e-5] * 20] * 10
    alone, ratio = summarise(noisy, seed=1), speedup(noisy, constant, seed=1)
    assert ratio.low * 1e-5 == pytest.approx(alone.low, rel=0.02)


@settings(max_examples=50)
@given(SEVERAL, SEVERAL)
def test_swapping_the_sides_inverts_the_ratio(one, other):
    there, back = speedup(one, other, **QUICK), speedup(other, one, **QUICK)
    assert there.value == pytest.approx(1 / back.value)
    assert there.low * back.high == pytest.approx(1) or back.high == math.inf
    assert there.high * back.low == pytest.approx(1) or there.high == math.inf
    assert there.low <= there.value <= there.high


def test_geometric_mean_of_a_tenth_and_ten_is_one():
    assert geometric_mean([0.1, 10.0]) == pytest.approx(1.0, rel=1e-15)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.randoms())
def test_geometric_mean_depends_neither_on_order_nor_on_direction(ratios, random):
    mean = geometric_mean(ratios)
    assert geometric_mean(random.sample(ratios, len(ratios))) == mean
    assert geometric_mean([1 / ratio for ratio in ratios]) == pytest.approx(1 / mean)


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [-1.0], [math.nan], [math.inf]])
def test_geometric_mean_refuses_what_is_no_ratio(ratios):
    with pytest.raises(InvalidRatiosError):
        geometric_mean(ratios)


# ---------------------------------------------------------------- crossover

SIZES = [16, 32, 64, 128, 256]
VALUES = {"s": 0.5, "i": 1.0, "f": 2.0}
VERDICTS = {"s": "slower", "i": "inconclusive", "f": "faster"}


def ratio_of(letter, value=None):
    value = VALUES[letter] if value is None else value
    return Ratio(value, value * 0.9, value * 1.1, VERDICTS[letter])


def cross(letters):
    return crossover(SIZES[: len(letters)], [ratio_of(letter) for letter in letters])


@given(st.floats(20, 20_000), st.floats(0.2, 2.0))
def test_a_planted_crossing_is_found_again(planted, slope):
    sizes = [2**power for power in range(4, 16)]
    values = [(size / planted) ** slope for size in sizes]
    ratios = [ratio_of("f" if value > 1 else "s", value) if value != 1 else ratio_of("i") for value in values]
    found = crossover(sizes, ratios)
    assert found.kind == "crosses"
    assert found.minibatch == pytest.approx(planted)
    assert found.low <= planted <= found.high


@pytest.mark.parametrize(
    ("letters", "low", "high"), [("ssfff", 32, 64), ("sffff", 16, 32), ("ssiff", 32, 128), ("siiif", 16, 256)]
)
def test_bracket_reaches_over_what_is_undecided(letters, low, high):
    found = cross(letters)
    assert (found.kind, found.low, found.high) == ("crosses", low, high)
    assert low <= found.minibatch <= high


@pytest.mark.parametrize(
    ("letters", "kind", "phrase"),
    [
        ("", "no_data", "not measured"),
        ("f", "one_point", "one minibatch only"),
        ("fffff", "always_faster", "faster at every minibatch measured"),
        ("sssss", "never", "none in range"),
        ("iiiii", "ambiguous", "ambiguous: inconclusive at every minibatch"),
        ("sfsff", "ambiguous", "ambiguous: crosses 3 times"),
        ("ffsss", "ambiguous", "ambiguous: faster at small minibatches, slower at large ones"),
        ("sissi", "ambiguous", "ambiguous: inconclusive at 32, 256"),
        ("iffff", "ambiguous", "ambiguous: inconclusive at 16"),
        ("sffif", "ambiguous", "ambiguous: inconclusive at 128"),
        ("ssfff", "crosses", "at about 45.3 (between 32 and 64)"),
    ],
)
def test_every_kind_says_itself_in_a_few_words(letters, kind, phrase):
    found = cross(letters)
    assert (found.kind, found.describe()) == (kind, phrase)


def test_wavering_undecided_values_take_the_last_rise():
    values = [0.5, 1.1, 0.9, 1.1, 2.0]
    found = crossover(SIZES, [ratio_of(*pair) for pair in zip("siiif", values, strict=True)])
    assert 64 < found.minibatch < 128


def test_partial_brackets_are_kept_where_the_rest_is_ambiguous():
    assert cross("iffff").high == 32
    assert cross("ssiii").low == 32
    assert math.isnan(cross("ssiii").high)


@pytest.mark.parametrize("sizes", [[32, 16], [16, 16], [0, 16], [-16, 16], [math.nan, 16], [16]])
def test_minibatches_that_do_not_ascend_are_refused(sizes):
    with pytest.raises(InvalidRatiosError):
        crossover(sizes, [ratio_of("s"), ratio_of("f")])


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_ratio_that_is_no_number_is_refused_at_its_minibatch(value):
    with pytest.raises(InvalidRatiosError, match="32"):
        crossover([16, 32], [ratio_of("s"), Ratio(value, value, value, "inconclusive")])


def test_a_verdict_against_its_value_is_refused():
    with pytest.raises(InvalidRatiosError, match="'slower'"):
        crossover([16, 32], [Ratio(2.0, 1.5, 2.5, "slower"), ratio_of("f")])


def test_a_crossover_compares_by_value():
    assert Crossover("crosses", 45.0, 32.0, 64.0) == Crossover("crosses", 45.0, 32.0, 64.0)


# ---------------------------------------------------------------- spread


def test_a_far_sample_is_flagged_and_kept():
    samples = np.concatenate([np.random.default_rng(8).lognormal(-11, 0.02, 100), [1.0]])
    assert outliers(samples) == 1
    estimate = summarise([samples, samples], **QUICK)
    assert (estimate.outliers, estimate.samples) == (2, 202)


def test_ordinary_skew_is_not_flagged():
    samples = np.random.default_rng(9).lognormal(-11, 0.2, 500)
    assert outliers(samples) == 0


def test_one_tick_of_a_coarse_clock_is_not_flagged():
    assert outliers([100e-6] * 90 + [101e-6] * 10) == 0
    assert outliers([100e-6] * 90 + [150e-6] * 10) == 10


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_samples_flag_nothing(count):
    assert outliers([1.0, 2.0, 3.0][:count]) == 0


def test_a_slow_process_is_spread_not_an_outlier():
    assert summarise([[1.0, 1.01] * 10, [1.0, 1.01] * 10, [3.0, 3.01] * 10], **QUICK).outliers == 0


def test_planted_variance_components_are_recovered():
    rng = np.random.default_rng(10)
    sizes = rng.integers(5, 60, 400)
    data = [np.exp(0.05 * rng.standard_normal() + 0.02 * rng.standard_normal(size)) for size in sizes]
    between, within = variance_components(data)
    assert math.sqrt(between) == pytest.approx(0.05, rel=0.1)
    assert math.sqrt(within) == pytest.approx(0.02, rel=0.05)


def test_variance_between_is_never_negative():
    assert variance_components([[1.0, 2.0], [1.0, 2.0]])[0] == 0.0


def test_variance_that_cannot_be_told_is_nan():
    between, within = variance_components([[1.0, 1.1, 1.2]])
    assert math.isnan(between)
    assert within > 0.0
    assert all(math.isnan(part) for part in variance_components([[1.0], [1.1]]))
