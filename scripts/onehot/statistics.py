"""What a set of samples says, and how surely: medians, ratios and crossovers with their intervals.

A *measurement* is a sequence of invocations (one process each), and an invocation a 1-D array of samples in
seconds. Samples of one process share its memory layout, its clocks and its neighbours, so they say little
about the next process: a bootstrap that pools them takes each for an independent witness and claims far too
narrow an interval. Here invocations are resampled first and samples within them, and the spread of the
replicates is turned into an interval that knows how few invocations there were.

How the interval is built
-------------------------
1. *What is estimated* is the median, over the processes that could have been started, of a process's median
   sample.
2. *Replicates.* Draw n of the n invocations with replacement; within each, resample its samples and take
   their median; the replicate is the median of those n medians.
3. *Spread.* s is the standard deviation of the logarithm of the replicates; logarithms, because time is
   positive, its errors are multiplicative, and a ratio's interval is then the same read either way.
4. *Few invocations.* The interval is ``estimate * exp(+-t * s)``, t the Student quantile of n - 1 degrees of
   freedom (and s larger by `PAIR_FACTOR` for n = 2). Percentiles of the replicates cannot do: hardly any lies
   outside the extreme invocations, and those enclose the true median with probability 1 - 2/2**n only (75 %
   for n = 3, 94 % for n = 5). To claim 95 % with three invocations is to assume a shape; the shape assumed is
   the log-normal one.

Coverage in per cent seen in simulation at a nominal 95 %: 40 right-skewed samples a process with a scale of
3 %, processes with one of 5 % (3000 sets each, so +-0.4; 600 in the last row, so +-1.8; tests repeat the
first row and the last). Where processes hardly differ the interval is wider than it need be:

===============================  =====  =====  =====
processes differ by              n = 3  n = 5  n = 10
===============================  =====  =====  =====
a normal law of the logarithm    96.5   96.7   95.2
an exponential law               96.3   96.9   95.1
Student's t of 3 degrees         97.5   97.8   96.0
a uniform law                    94.6   94.0   93.2
nothing                          100    99.9   99.7
normal law, samples pooled       27.8   28.7   27.2
===============================  =====  =====  =====

Ratios of normal-law measurements, n against n: 96.9 (3, 3), 97.3 (5, 5), 95.2 (3, 10), 96.2 (10, 10).

Samples cut to the ticks of a coarse clock can leave every process with the same median, and so an interval of
no width: it knows the scatter of what was read, not the resolution of the reading.

Every function is deterministic in its seed, does not depend on the order of invocations or samples, and gives
the same bytes on the same NumPy.

Sources
-------
- T. Kalibera, R. Jones, "Rigorous Benchmarking in Reasonable Time", ISMM'13, and "Quantifying Performance
  Changes with Effect Size Confidence Intervals", arXiv:2007.10899: repetition at every level, intervals of
  ratios.
- A. C. Davison, D. V. Hinkley, "Bootstrap Methods and their Application" (1997), section 3.8: hierarchical
  data; resampling at both levels counts the inner variance twice, so it errs on the wide side.
- T. Hesterberg, "What Teachers Should Know about the Bootstrap", The American Statistician 69 (2015):
  percentile intervals under-cover in small samples; Student quantiles and a factor for n as the remedy.
- J. S. Maritz, R. G. Jarrett, "A Note on Estimating the Variance of the Sample Median", JASA 73 (1978): the
  bootstrap distribution of a median in closed form, which `_inner_ranks` draws from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from onehot.errors import StudyError

Floats = NDArray[np.float64]
Ranks = NDArray[np.intp]
Verdict = Literal["faster", "slower", "inconclusive"]
CrossoverKind = Literal["crosses", "always_faster", "never", "ambiguous", "one_point", "no_data"]

PAIR_FACTOR = math.sqrt(2.0)
"""Widening for two invocations, whose median is their mean: its bootstrap is short by sqrt(n / (n - 1)).

From three invocations on none is needed: the bootstrap overstates the spread of a median, by a quarter for
n = 3 and 5 under a normal law.
"""

FEWEST_RESAMPLES = 100
"""Fewer replicates leave the width of an interval uncertain by more than 7 %."""

OUTLIER_FENCE = 3.0
"""Interquartile ranges beyond the quartiles: Tukey's outer fence (Exploratory Data Analysis, 1977)."""

SMALLEST_SPREAD = 0.01
"""A difference under 1 % may be the timer's own: a sample is at least 100 times that."""


class InvalidSamplesError(StudyError):
    """A measurement holds something that cannot be a time."""


class InvalidRatiosError(StudyError):
    """Ratios or minibatches that cannot be combined."""


@dataclass(frozen=True)
class Estimate:
    """Summary of one measurement; times in seconds.

    Attributes
    ----------
    median
        Median over invocations of each invocation's median.
    low, high
        Interval of `median`; NaN with one invocation, which says nothing of the next.
    p5, p95
        Percentiles of the samples, each invocation having the same weight.
    minimum
        Smallest sample.
    invocations, samples
        How many there were.
    outliers
        Samples flagged by `outliers` within their own invocation. All of them are in the figures above.
    """

    median: float
    low: float
    high: float
    p5: float
    p95: float
    minimum: float
    invocations: int
    samples: int
    outliers: int


@dataclass(frozen=True)
class Ratio:
    """Baseline time over candidate time: above 1, the candidate is faster."""

    value: float
    low: float
    high: float
    verdict: Verdict


@dataclass(frozen=True)
class Crossover:
    """Where a candidate overtakes its baseline along the minibatch.

    Attributes
    ----------
    kind
        'crosses': slower up to `low`, faster from `high` for good. 'always_faster' and 'never': at every
        minibatch measured. 'ambiguous': none of these can be claimed. 'one_point', 'no_data': too little
        measured to ask.
    minibatch
        Interpolated crossing, log-log; NaN unless `kind` is 'crosses'.
    low, high
        Largest minibatch that is slower, smallest from which all are faster; NaN where there is none.
    reason
        What stands in the way when `kind` is 'ambiguous'.
    """

    kind: CrossoverKind
    minibatch: float
    low: float
    high: float
    reason: str = ""

    def describe(self) -> str:
        """Say it in a few words, for a table or a caption."""
        about = f"{float(f'{self.minibatch:.3g}'):.10g}"
        phrases: dict[CrossoverKind, str] = {
            "crosses": f"at about {about} (between {self.low:.10g} and {self.high:.10g})",
            "always_faster": "faster at every minibatch measured",
            "never": "none in range",
            "ambiguous": f"ambiguous: {self.reason}",
            "one_point": "one minibatch only",
            "no_data": "not measured",
        }
        return phrases[self.kind]


@dataclass(frozen=True)
class _Measurement:
    """Checked samples in an order that depends on their values alone."""

    ordered: tuple[Floats, ...]
    medians: Floats

    @property
    def median(self) -> float:
        return float(_middle(np.sort(self.medians)))

    @property
    def key(self) -> list[list[float]]:
        return [samples.tolist() for samples in self.ordered]


# ---------------------------------------------------------------- summaries


def summarise(
    invocations: Sequence[ArrayLike], *, seed: int, level: float = 0.95, resamples: int = 2000
) -> Estimate:
    """Summarise a measurement by its median and the interval of that median.

    The point estimate is the median over invocations of each invocation's median, not the median of the
    pooled samples: sampling stops when an interval is narrow enough, so the noisiest process leaves the most
    samples, and pooling would give it the most weight.

    Parameters
    ----------
    invocations
        One 1-D array of samples, in seconds, for each process.
    seed
        Seed of the bootstrap. Give all measurements of a study the same one: draws are then shared and cheap.
    level
        Nominal coverage of the interval.
    resamples
        Bootstrap replicates; the interval's width has a relative error of about ``1 / sqrt(2 * resamples)``.

    Returns
    -------
    Estimate
        `low` and `high` are NaN for a single invocation.

    Raises
    ------
    InvalidSamplesError
        A sample is zero, negative, infinite or NaN, or an invocation is empty or not 1-D.
    """
    _check_settings(level, resamples)
    measurement = _checked(invocations)
    replicates = _replicates(measurement, seed, 0, resamples)
    half_width = _half_width([_deviations(measurement, replicates)], level)
    low, high = _interval(measurement.median, half_width)
    p5, p95 = _percentiles(measurement, (0.05, 0.95))
    return Estimate(
        median=measurement.median,
        low=low,
        high=high,
        p5=p5,
        p95=p95,
        minimum=float(min(samples[0] for samples in measurement.ordered)),
        invocations=len(measurement.ordered),
        samples=sum(samples.size for samples in measurement.ordered),
        outliers=sum(_flagged(samples) for samples in measurement.ordered),
    )


def outlier_flags(samples: ArrayLike) -> NDArray[np.bool_]:
    """Return which samples of one invocation `outliers` counts, in their order.

    Logarithm, quartiles and fence as there.
    """
    logs = np.log(np.asarray(samples, dtype=np.float64))
    lower, upper = np.quantile(logs, [0.25, 0.75])
    reach = OUTLIER_FENCE * max(upper - lower, SMALLEST_SPREAD)
    flags: NDArray[np.bool_] = (logs < lower - reach) | (logs > upper + reach)
    return flags


def outliers(samples: ArrayLike) -> int:
    """Count the samples far outside the bulk. They are flagged, never dropped.

    A sample is flagged when its logarithm lies beyond the quartiles by more than `OUTLIER_FENCE` times the
    interquartile range, the range taken as at least `SMALLEST_SPREAD`: with a coarse clock most samples are
    equal, their range is zero, and one tick more would count as an outlier.

    Parameters
    ----------
    samples
        Samples of one invocation, in seconds. Invocations differ in level, so each is judged by its own
        quartiles.

    Returns
    -------
    int
        Number flagged.
    """
    return _flagged(_checked([samples]).ordered[0])


def variance_components(invocations: Sequence[ArrayLike]) -> tuple[float, float]:
    """Split the variance of log time into what processes and what samples contribute.

    One-way random-effects analysis of variance for groups of unequal size. The square root of a component is,
    when small, a relative spread: a `between` of 0.0004 means that processes differ by 2 %.

    Parameters
    ----------
    invocations
        One 1-D array of samples, in seconds, for each process.

    Returns
    -------
    between, within : float
        Variances of natural logarithms. `between` is cut off at 0. NaN where there is nothing to tell it
        from: one invocation has no `between`; invocations of one sample each have no `within`, and so
        neither.

    Notes
    -----
    Samples that follow each other are alike, which `within` takes for small variance and `between` for large.
    Source: S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components" (1992), section 3.6.
    """
    logs = [np.log(samples) for samples in _checked(invocations).ordered]
    sizes = np.array([log.size for log in logs], dtype=np.float64)
    total, groups = float(sizes.sum()), len(logs)
    if total == groups:
        return math.nan, math.nan
    means = np.array([log.mean() for log in logs])
    within = float(sum(((log - log.mean()) ** 2).sum() for log in logs)) / (total - groups)
    if groups == 1:
        return math.nan, within
    grand_mean = float(sizes @ means) / total
    mean_square = float(sizes @ (means - grand_mean) ** 2) / (groups - 1)
    effective_size = (total - float(sizes @ sizes) / total) / (groups - 1)
    return max(0.0, (mean_square - within) / effective_size), within


# ---------------------------------------------------------------- ratios


def speedup(
    baseline: Sequence[ArrayLike],
    candidate: Sequence[ArrayLike],
    *,
    seed: int,
    level: float = 0.95,
    resamples: int = 2000,
) -> Ratio:
    """Compare two measurements: baseline time over candidate time.

    Both are resampled together and each replicate of the ratio is taken from one replicate of either. Where
    the two differ in spread or in number of invocations, Welch's degrees of freedom weigh them.

    Parameters
    ----------
    baseline, candidate
        Measurements, as for `summarise`.
    seed, level, resamples
        As for `summarise`.

    Returns
    -------
    Ratio
        'faster' or 'slower' when the interval excludes 1, else 'inconclusive'; always inconclusive, with a
        NaN interval, when either side has a single invocation.

    Notes
    -----
    ``speedup(a, b)`` and ``speedup(b, a)`` are each other's inverse, intervals included. Source of the
    degrees of freedom: B. L. Welch, Biometrika 34 (1947).
    """
    _check_settings(level, resamples)
    sides = [_checked(baseline), _checked(candidate)]
    # Random streams go by the data, not by the role, or swapping the roles would give another interval.
    first = 0 if sides[0].key <= sides[1].key else 1
    streams = (first, 1 - first)
    deviations = [
        _deviations(side, _replicates(side, seed, stream, resamples))
        for side, stream in zip(sides, streams, strict=True)
    ]
    half_width = _half_width(deviations, level)
    value = sides[0].median / sides[1].median
    low, high = _interval(value, half_width)
    return Ratio(value, low, high, _verdict(low, high))


def geometric_mean(ratios: Iterable[float]) -> float:
    """Mean of ratios under which 0.1 and 10 make 1, and not 5.05.

    Parameters
    ----------
    ratios
        Positive, finite ratios, in any order.

    Returns
    -------
    float
        Their geometric mean, the same for any order.

    Raises
    ------
    InvalidRatiosError
        There is no ratio, or one is zero, negative, infinite or NaN.
    """
    values = [float(ratio) for ratio in ratios]
    if not values:
        raise InvalidRatiosError("geometric mean of no ratios; give at least one")
    for index, value in enumerate(values):
        if not (math.isfinite(value) and value > 0.0):
            raise InvalidRatiosError(
                f"ratio {index} is {value!r}; a geometric mean takes positive, finite ratios"
            )
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _verdict(low: float, high: float) -> Verdict:
    if low > 1.0:
        return "faster"
    if high < 1.0:
        return "slower"
    return "inconclusive"  # also for NaN, which compares false


# ---------------------------------------------------------------- crossover


def crossover(minibatches: Sequence[float], ratios: Sequence[Ratio]) -> Crossover:
    """Find the minibatch from which the candidate is faster for good.

    Parameters
    ----------
    minibatches
        Sizes measured, ascending.
    ratios
        Time of the baseline (NumPy) over time of the candidate (CuPy) at each of them, as `speedup` returns
        it.

    Returns
    -------
    Crossover
        'crosses' only when verdicts read slower, then perhaps inconclusive, then faster to the end: neither a
        crossing nor its absence is claimed past a point that could not be decided.

    Raises
    ------
    InvalidRatiosError
        Lengths differ, minibatches are not positive and ascending, or a ratio is not positive and finite.

    Notes
    -----
    Between two sizes log ratio is taken as linear in log minibatch: exact where times follow power laws, as
    they do on either side of a launch-bound knee. The bracket holds without that assumption.
    """
    _check_series(minibatches, ratios)
    if len(ratios) < 2:
        return Crossover("one_point" if ratios else "no_data", math.nan, math.nan, math.nan)
    verdicts = "".join(ratio.verdict[0] for ratio in ratios)
    last_slower, first_faster = verdicts.rfind("s"), len(verdicts.rstrip("f"))
    low = float(minibatches[last_slower]) if last_slower >= 0 else math.nan
    high = float(minibatches[first_faster]) if first_faster < len(verdicts) else math.nan
    if re.fullmatch("s+i*f+", verdicts):
        inside = slice(last_slower, first_faster + 1)
        return Crossover("crosses", _interpolate(minibatches[inside], ratios[inside]), low, high)
    if re.fullmatch("f+|s+", verdicts):
        return Crossover("always_faster" if verdicts[0] == "f" else "never", math.nan, low, high)
    return Crossover("ambiguous", math.nan, low, high, _why_ambiguous(minibatches, verdicts))


def _why_ambiguous(minibatches: Sequence[float], verdicts: str) -> str:
    """Return what keeps verdicts, given by their initials, from being one crossing or none."""
    decided = verdicts.replace("i", "")
    if not decided:
        return "inconclusive at every minibatch"
    changes = decided.count("sf") + decided.count("fs")
    if changes > 1:
        return f"crosses {changes} times"
    if changes == 1 and decided[0] == "f":
        return "faster at small minibatches, slower at large ones"
    undecided = [f"{size:g}" for size, verdict in zip(minibatches, verdicts, strict=True) if verdict == "i"]
    return "inconclusive at " + ", ".join(undecided)


def _interpolate(minibatches: Sequence[float], ratios: Sequence[Ratio]) -> float:
    """Return where the line through the log ratios last rises above 0."""
    sizes = np.log(np.asarray(minibatches, dtype=np.float64))
    values = np.log([ratio.value for ratio in ratios])
    left = int(np.flatnonzero(values <= 0.0)[-1])
    slope = (values[left + 1] - values[left]) / (sizes[left + 1] - sizes[left])
    return float(np.exp(sizes[left] - values[left] / slope))


def _check_series(minibatches: Sequence[float], ratios: Sequence[Ratio]) -> None:
    if len(minibatches) != len(ratios):
        raise InvalidRatiosError(
            f"{len(minibatches)} minibatches but {len(ratios)} ratios; give one ratio for each"
        )
    for before, size in zip([0, *minibatches], minibatches, strict=False):
        if not (math.isfinite(size) and size > before):
            raise InvalidRatiosError(
                f"minibatch {size!r} follows {before!r}; they must be positive and ascend"
            )
    for size, ratio in zip(minibatches, ratios, strict=True):
        if not (math.isfinite(ratio.value) and ratio.value > 0.0):
            raise InvalidRatiosError(
                f"ratio at minibatch {size!r} is {ratio.value!r}; leave out what was not measured"
            )
        if (ratio.verdict == "faster" and ratio.value <= 1.0) or (
            ratio.verdict == "slower" and ratio.value >= 1.0
        ):
            raise InvalidRatiosError(
                f"ratio at minibatch {size!r} is {ratio.value!r} but reads {ratio.verdict!r}"
            )


# ---------------------------------------------------------------- bootstrap


def _check_settings(level: float, resamples: int) -> None:
    if not 0.0 < level < 1.0:
        raise StudyError(f"level is {level!r}; it must lie between 0 and 1, such as 0.95")
    if resamples < FEWEST_RESAMPLES:
        raise StudyError(
            f"resamples is {resamples!r}; at least {FEWEST_RESAMPLES} are needed, 2000 are usual"
        )


def _half_width(sides: Sequence[tuple[Floats, int]], level: float) -> float:
    """Return the half-width, on log scale, of the interval of one side or of the ratio of two.

    `sides` holds, for each, the log replicates as deviations and the degrees of freedom.
    """
    if any(freedom < 1 for _, freedom in sides):
        return math.nan
    joint = sides[0][0] if len(sides) == 1 else sides[0][0] - sides[1][0]
    variances = [float(np.var(deviations)) for deviations, _ in sides]
    if sum(variances) == 0.0:
        return 0.0
    shares = [variance / sum(variances) for variance in variances]
    freedom = 1.0 / sum(share**2 / side[1] for share, side in zip(shares, sides, strict=True))
    return float(stdtrit(freedom, 0.5 + level / 2.0)) * float(np.std(joint))


def _interval(value: float, half_width: float) -> tuple[float, float]:
    # math.exp would raise where two invocations differ so wildly that the upper end is infinite.
    with np.errstate(over="ignore"):
        return value * float(np.exp(-half_width)), value * float(np.exp(half_width))


def _deviations(measurement: _Measurement, replicates: Floats) -> tuple[Floats, int]:
    """Return log replicates about the estimate, widened for two invocations, and degrees of freedom."""
    count = measurement.medians.size
    scaled: Floats = (PAIR_FACTOR if count == 2 else 1.0) * np.log(replicates / measurement.median)
    return scaled, count - 1


def _replicates(measurement: _Measurement, seed: int, stream: int, resamples: int) -> Floats:
    """Draw bootstrap replicates of the median of medians: invocations first, samples within."""
    inner = np.empty((len(measurement.ordered), resamples))
    for row, samples in zip(inner, measurement.ordered, strict=True):
        lower, upper = _inner_ranks(seed, stream, samples.size, resamples)
        np.add(samples[lower], samples[upper], out=row)
    drawn, column = _outer_draws(seed, stream, len(measurement.ordered), resamples)
    medians = inner[drawn, column]
    medians.sort(axis=0)
    return _middle(medians) / 2.0


@lru_cache(maxsize=64)
def _outer_draws(seed: int, stream: int, invocations: int, resamples: int) -> tuple[Ranks, Ranks]:
    """Return which invocation each place of each replicate takes, and which of its inner medians.

    Places of one replicate take inner medians from different columns. An invocation drawn twice, or two
    invocations that share `_inner_ranks`, is thereby resampled anew each time.
    """
    rng = np.random.default_rng((seed, stream, 0, invocations))
    drawn = rng.integers(0, invocations, size=(invocations, resamples))
    shift = np.arange(invocations) * max(1, resamples // invocations)
    return drawn, (np.arange(resamples) + shift[:, None]) % resamples


@lru_cache(maxsize=1024)
def _inner_ranks(seed: int, stream: int, size: int, resamples: int) -> tuple[Ranks, Ranks]:
    """Draw the two middle ranks, from 0, of resamples of `size` sorted samples.

    A resample is `size` uniform numbers, each naming the sample ``floor(size * u)``. Only its middle ones
    matter, and the h-th smallest of n uniforms is Beta(h, n - h + 1), the next one the smallest of n - h
    uniforms above it. So two random numbers stand for a resample of hundreds, exactly.
    """
    rng = np.random.default_rng((seed, stream, 1, size))
    half = (size + 1) // 2
    lower = rng.beta(half, size - half + 1, size=resamples)
    upper = lower
    if size % 2 == 0:
        upper = 1.0 - (1.0 - lower) * rng.random(resamples) ** (1.0 / (size - half))
    ranks = [np.minimum((size * u).astype(np.intp), size - 1) for u in (lower, upper)]
    return ranks[0], ranks[1]


def _middle(ordered: Floats) -> Floats:
    """Return the median along the first, sorted axis; ``np.median`` costs several times more here."""
    count = ordered.shape[0]
    middle: Floats = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2.0
    return middle


# ---------------------------------------------------------------- samples


def _checked(invocations: Sequence[ArrayLike]) -> _Measurement:
    """Refuse what cannot be times; sort samples, and invocations by their values."""
    if len(invocations) == 0:
        raise InvalidSamplesError("the measurement has no invocation; it needs at least one")
    ordered = [_sorted_samples(index, samples) for index, samples in enumerate(invocations)]
    # By the samples themselves: medians a rounding error apart could change places with the unit of time.
    ordered.sort(key=lambda samples: samples.tolist())
    return _Measurement(tuple(ordered), np.array([_middle(samples) for samples in ordered]))


def _sorted_samples(index: int, samples: ArrayLike) -> Floats:
    values = np.array(samples, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise InvalidSamplesError(
            f"invocation {index} has shape {values.shape}; it must be 1-D with at least one sample"
        )
    valid = np.isfinite(values) & (values > 0.0)
    if not valid.all():
        place = int(np.argmin(valid))
        raise InvalidSamplesError(
            f"sample {place} of invocation {index} is {float(values[place])!r} seconds; "
            "a sample must be positive and finite: measure again, over more calls if the clock is coarse"
        )
    values.sort()
    return values


def _percentiles(measurement: _Measurement, parts: Sequence[float]) -> list[float]:
    """Return percentiles of all samples, each invocation weighing the same.

    The weights keep p5 <= median <= p95: half of the invocations have half of their samples on either side.
    """
    values = np.concatenate(measurement.ordered)
    sizes = np.array([samples.size for samples in measurement.ordered])
    order = np.argsort(values, kind="stable")
    weights = np.repeat(1.0 / (sizes * sizes.size), sizes)[order]
    # A hair below the part asked for: twenty weights of 0.05 need not add up to 1 exactly.
    places = np.searchsorted(np.cumsum(weights), np.asarray(parts) - 1e-9)
    return [float(values[order[min(int(place), values.size - 1)]]) for place in places]


def _flagged(ordered: Floats) -> int:
    logs = np.log(ordered)
    lower, upper = (float(_quantile(logs, part)) for part in (0.25, 0.75))
    reach = OUTLIER_FENCE * max(upper - lower, SMALLEST_SPREAD)
    return int(np.count_nonzero((logs < lower - reach) | (logs > upper + reach)))


def _quantile(ordered: Floats, part: float) -> float:
    """Return a quantile of sorted values, linear between ranks; ``np.quantile`` costs far more."""
    place = part * (ordered.size - 1)
    left = int(place)
    right = min(left + 1, ordered.size - 1)
    return float(ordered[left] + (place - left) * (ordered[right] - ordered[left]))
