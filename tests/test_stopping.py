"""The stopping rule's interval: exact ranks, real coverage, no heavy import, and quick."""

import math
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onehot.stopping import FEWEST_SAMPLES, lower_rank, relative_half_width
from scipy.stats import binom

SECONDS = st.floats(1e-9, 1e3)


@pytest.mark.parametrize("count", range(FEWEST_SAMPLES))
def test_too_few_samples_never_meet_a_target(count):
    assert relative_half_width(np.ones(count)) == math.inf


@pytest.mark.parametrize("count", [6, 7, 8, 9, 10, 30, 71, 100, 499, 500, 1024, 5000])
def test_rank_is_the_largest_that_still_covers_95_percent(count):
    rank = lower_rank(count)
    assert binom.cdf(rank - 1, count, 0.5) <= 0.025 < binom.cdf(rank, count, 0.5)


def test_known_interval_of_ten_samples():
    samples = np.arange(10, 20) * 1e-6  # ranks 2 and 9: 11 and 18 around 14.5
    assert relative_half_width(samples) == pytest.approx((18 - 11) / 2 / 14.5)


def test_equal_samples_have_no_width():
    assert relative_half_width([2e-6] * 20) == 0.0


@pytest.mark.parametrize("bad", [0.0, -1e-6, math.nan, math.inf, -math.inf])
def test_a_sample_that_is_no_time_never_meets_a_target(bad):
    assert relative_half_width([1e-6] * 20 + [bad]) == math.inf


def test_interval_covers_the_median_of_skewed_samples():
    rng = np.random.default_rng(20)
    samples = np.sort(rng.lognormal(size=(20_000, 30)), axis=1)
    rank = lower_rank(30)
    covered = (samples[:, rank - 1] <= 1.0) & (samples[:, 30 - rank] >= 1.0)
    assert 0.95 <= covered.mean() <= 0.97


@given(st.lists(SECONDS, min_size=6, max_size=60), st.floats(1e-3, 1e3))
def test_half_width_does_not_depend_on_the_unit(samples, factor):
    scaled = relative_half_width(np.array(samples) * factor)
    assert scaled == pytest.approx(relative_half_width(samples), rel=1e-9, abs=1e-12)


@given(st.lists(SECONDS, min_size=6, max_size=60), st.randoms())
def test_half_width_does_not_depend_on_the_order(samples, random):
    shuffled = random.sample(samples, len(samples))
    assert relative_half_width(shuffled) == relative_half_width(samples)


def test_samples_are_left_as_they_were():
    samples = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 6.0])
    relative_half_width(samples)
    assert samples.tolist() == [3.0, 1.0, 2.0, 5.0, 4.0, 6.0]


def test_a_timed_process_imports_neither_scipy_nor_pandas():
    program = "import sys, onehot.stopping; print(sorted({'scipy', 'pandas'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_it_is_quick_enough_to_ask_between_samples():
    samples = np.random.default_rng(1).lognormal(size=100)
    relative_half_width(samples)
    durations = []
    for _ in range(200):
        begin = time.perf_counter()
        relative_half_width(samples)
        durations.append(time.perf_counter() - begin)
    assert min(durations) < 100e-6  # about 5 us; the bound only catches a change of kind
