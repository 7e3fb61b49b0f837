"""What a study is going to cost: jobs and seconds by backend, from earlier records where there are any."""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from onehot.variant import Variant

START_UP_SECONDS = {False: 1.0, True: 2.5}
"""What a job costs beyond its measuring where no record tells, by whether on a GPU."""

IDLE_SECONDS = 20.0
"""A longer gap between two jobs is a pause of the study, not a start-up."""

OTHER_SECONDS = {"limits": 12.0, "headline": 30.0, "cold_start": 3.0, "ledger": 3.0, "witness": 6.0}
"""What a job beside the sweep takes where no record of its kind tells: a guess, and the plan says so."""

Key = tuple[Variant, int]
_Name = TypeVar("_Name")


@dataclass(frozen=True)
class Timed:
    """When an earlier job measured.

    Attributes
    ----------
    variant, invocation : what it measured.
    start, end : of measuring, in seconds of one clock.
    """

    variant: Variant
    invocation: int
    start: float
    end: float


@dataclass(frozen=True)
class Line:
    """The jobs of one backend and implementation.

    Attributes
    ----------
    backend, implementation : whose jobs.
    measured : jobs whose record is there already.
    waiting : jobs to run.
    seconds : what the waiting ones take, one after the other.
    source : where the seconds come from: ``records`` of the same variants, ``similar`` records (of the same
        implementation, or the same backend), the ``budget`` of the configuration, or a ``guess``.
    """

    backend: str
    implementation: str
    measured: int
    waiting: int
    seconds: float
    source: str


@dataclass(frozen=True)
class Other:
    """A job beside the sweep.

    Attributes
    ----------
    kind : of its record, as its folder is called.
    backend : that it asks.
    present : whether its record is there.
    seconds : that it took; None where no record tells.
    """

    kind: str
    backend: str
    present: bool
    seconds: float | None


@dataclass(frozen=True)
class Skipped:
    """Variants that are not measured, for one reason."""

    backend: str
    variants: int
    reason: str


def epoch_seconds(stamp_utc: str) -> float:
    """Return a record's time stamp as seconds since 1970."""
    return datetime.fromisoformat(stamp_utc).timestamp()


def start_ups(earlier: Iterable[Timed]) -> list[tuple[Timed, float]]:
    """Return the jobs that followed another at once, each with the seconds between the two."""
    ordered = sorted(earlier, key=lambda one: one.start)
    gaps = [(later, later.start - before.end) for before, later in itertools.pairwise(ordered)]
    return [(later, gap) for later, gap in gaps if 0 <= gap < IDLE_SECONDS]


def estimate(
    planned: Iterable[Key],
    present: Iterable[Key],
    earlier: Sequence[Timed],
    budget_seconds: float,
    on_device: Mapping[str, bool],
) -> list[Line]:
    """Return a line for each implementation on each backend, in order of name."""
    there = set(present)
    lengths = [(one.variant, one.end - one.start) for one in earlier]
    same = _medians(lengths)
    alike = _medians(((variant.backend, variant.implementation), seconds) for variant, seconds in lengths)
    of_backend = _medians((variant.backend, seconds) for variant, seconds in lengths)
    between = _medians((on_device[one.variant.backend], gap) for one, gap in start_ups(earlier))
    found: dict[tuple[str, str], list[Key]] = defaultdict(list)
    for key in planned:
        found[key[0].backend, key[0].implementation].append(key)
    lines = []
    for (backend, implementation), keys in sorted(found.items()):
        waiting = [variant for variant, invocation in keys if (variant, invocation) not in there]
        known = sum(variant in same for variant in waiting)
        similar = alike.get((backend, implementation), of_backend.get(backend, budget_seconds))
        start_up = between.get(on_device[backend], START_UP_SECONDS[on_device[backend]])
        source = _source(known, len(waiting), backend in of_backend)
        seconds = sum(start_up + same.get(variant, similar) for variant in waiting)
        lines.append(Line(backend, implementation, len(keys) - len(waiting), len(waiting), seconds, source))
    return lines


def others(jobs: Iterable[Other]) -> list[Line]:
    """Return a line for each kind of job beside the sweep on each backend."""
    found: dict[tuple[str, str], list[Other]] = defaultdict(list)
    for job in jobs:
        found[job.backend, job.kind].append(job)
    lines = []
    for (backend, kind), alike in sorted(found.items()):
        known = [job.seconds for job in alike if job.seconds is not None]
        each = statistics.median(known) if known else OTHER_SECONDS[kind]
        waiting = sum(not job.present for job in alike)
        source = "" if not waiting else "similar" if known else "guess"
        lines.append(Line(backend, f"({kind})", len(alike) - waiting, waiting, waiting * each, source))
    return lines


def _medians(pairs: Iterable[tuple[_Name, float]]) -> dict[_Name, float]:
    found: dict[_Name, list[float]] = defaultdict(list)
    for key, seconds in pairs:
        found[key].append(seconds)
    return {key: statistics.median(values) for key, values in found.items()}


def _source(known: int, waiting: int, backend_known: bool) -> str:
    if not waiting:
        return ""
    if known == waiting:
        return "records"
    return "similar" if backend_known else "budget"


def skipped(planned: Iterable[tuple[Variant, str]]) -> list[Skipped]:
    """Return how many variants each reason keeps from being measured, given those with their reasons."""
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for variant, reason in planned:
        counted[variant.backend, reason] += 1
    return [Skipped(backend, count, reason) for (backend, reason), count in sorted(counted.items())]


def duration_text(seconds: float) -> str:
    """Return a length of time in the units one would say it in."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def text(machine: str, lines: Sequence[Line], left_out: Sequence[Skipped]) -> str:
    """Return the plan as a reader meets it in a terminal."""
    width = max((len(line.implementation) for line in lines), default=14)
    head = f"{'backend':<11}{'implementation':<{width + 2}}{'measured':>9}{'to run':>8}{'about':>9}  from"
    rows = [
        f"{line.backend:<11}{line.implementation:<{width + 2}}{line.measured:>9}{line.waiting:>8}"
        f"{duration_text(line.seconds):>9}  {_SOURCES[line.source]}"
        for line in lines
    ]
    waiting, seconds = sum(line.waiting for line in lines), sum(line.seconds for line in lines)
    total = f"{waiting} jobs to run on {machine}, about {duration_text(seconds)} one after the other"
    missing = [f"not measured: {one.variants} variants of {one.backend}: {one.reason}" for one in left_out]
    return "\n".join([head, *rows, "", total, *missing])


_SOURCES = {
    "": "",
    "records": "records of these variants",
    "similar": "records of similar variants",
    "guess": "a guess: no job of this kind ran here yet",
    "budget": "the sampling budget: nothing was measured here yet",
}
