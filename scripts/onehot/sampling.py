"""When to stop: samples of one clock until the median is known well enough, or the budget is spent."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onehot.stopping import relative_half_width

TARGET = "target"
BUDGET = "budget"
MAXIMUM = "maximum"
SINGLE = "single"
"""One call outlasted the whole budget: its one sample is kept and says so."""

FIRST_LOOK = 6
"""Fewer samples give no 95 % interval of the median at all."""


@dataclass(frozen=True)
class Rule:
    """The stopping rule of one clock."""

    budget_seconds: float
    target: float
    min_samples: int
    max_samples: int


@dataclass(frozen=True)
class Series:
    """All samples of one clock in one process, in the order in which they were taken.

    Attributes
    ----------
    seconds : a call, one value a sample.
    calls_per_sample : calls that each sample spans.
    stopped : why sampling ended: ``target``, ``budget``, ``maximum`` or ``single``.
    half_width : relative half-width of the median's 95 % interval at the end; None under six samples.
    """

    seconds: list[float]
    calls_per_sample: int
    stopped: str
    half_width: float | None


def sample(measure: Callable[[], float], rule: Rule, calls_per_sample: int) -> Series:
    """Take samples until the rule says stop."""
    seconds: list[float] = []
    begin = time.perf_counter()
    stopped = MAXIMUM
    while len(seconds) < rule.max_samples:
        seconds.append(measure())
        if time.perf_counter() - begin >= rule.budget_seconds:
            stopped = SINGLE if len(seconds) == 1 else BUDGET
            break
        if (
            len(seconds) >= max(rule.min_samples, FIRST_LOOK)
            and len(seconds) % 5 == 0
            and _width(seconds) <= rule.target
        ):
            stopped = TARGET
            break
    width = _width(seconds) if len(seconds) >= FIRST_LOOK else float("inf")
    return Series(seconds, calls_per_sample, stopped, width if np.isfinite(width) else None)


def _width(seconds: list[float]) -> float:
    return relative_half_width(np.asarray(seconds))


def calls_for(seconds_a_call: float, sample_seconds: float, most: int = 100_000) -> int:
    """Return how many calls make a sample of the wished length."""
    return max(1, min(most, round(sample_seconds / max(seconds_a_call, 1e-9) + 0.5)))
