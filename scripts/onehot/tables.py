"""Tidy frames from records: every sample, and what is concluded from them."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from onehot import clocks, implementations, machine, statistics
from onehot.errors import RecordError
from onehot.implementations.registry import LOOKUP, SCATTER, STEP
from onehot.records import (
    BackendRecord,
    ColdStartRecord,
    ConfigurationRecord,
    HeadlineRecord,
    LedgerRecord,
    LimitModel,
    LimitsRecord,
    MeasurementRecord,
    Plan,
    ProvenanceModel,
    Record,
    WitnessRecord,
)
from onehot.variant import COLUMNS, CORRECTED, PUBLISHED, Variant

FACTORS = list(COLUMNS)
RANKED_CLOCKS = (clocks.LATENCY, clocks.THROUGHPUT)
"""Only clocks that wait for the work are ever compared between backends."""

QUESTION_SECONDS = {"numpy": 16.55, "cupy": 152.15}
"""What the question reports for its loop of 1570 minibatches.

The statement the study examines, not a result of it.
"""

SAME_LOOP = "loop on the same backend"
NUMPY_FANCY = "NumPy fancy_index"
NUMPY_SAME = "NumPy, same implementation"
PLAIN = {SCATTER: "scatter_add_at", STEP: "step_loop"}
"""The plain form that the others of a task are compared with; lookups with the loop of their geometry."""

LOOPS = {PUBLISHED: "published_loop", CORRECTED: "loop_vstack"}

UNMEASURED = (Plan, ConfigurationRecord)
OneRecord = TypeVar("OneRecord")
Samples = Mapping[tuple[Variant, str], Sequence[np.ndarray[Any, Any]]]


@dataclass(frozen=True)
class Rule:
    """How samples become statements; see ``config.Statistics``."""

    seed: int
    level: float
    resamples: int

    def estimate(self, invocations: Sequence[ArrayLike]) -> statistics.Estimate:
        """Return the median of a measurement with its interval; one array of samples an invocation."""
        return statistics.summarise(invocations, seed=self.seed, level=self.level, resamples=self.resamples)

    def ratio(self, baseline: Sequence[ArrayLike], candidate: Sequence[ArrayLike]) -> statistics.Ratio:
        """Return how many times faster the candidate is, with its interval and verdict."""
        return statistics.speedup(
            baseline, candidate, seed=self.seed, level=self.level, resamples=self.resamples
        )


@dataclass(frozen=True)
class Results:
    """The records of one machine, sorted by kind and free of contradictions."""

    plan: Plan
    configuration: dict[str, Any]
    measurements: list[MeasurementRecord]
    headlines: list[HeadlineRecord]
    cold_starts: list[ColdStartRecord]
    limits: list[LimitsRecord]
    backends: list[BackendRecord]
    ledgers: list[LedgerRecord] = field(default_factory=list)
    witnesses: list[WitnessRecord] = field(default_factory=list)

    @property
    def rule(self) -> Rule:
        """The statistics that the configuration asks for."""
        chosen = self.configuration["statistics"]
        return Rule(self.configuration["seed"], chosen["level"], chosen["resamples"])

    def samples(self) -> dict[tuple[Variant, str], list[np.ndarray[Any, Any]]]:
        """Return the samples of each variant and clock.

        One array an invocation, in the invocations' order.
        """
        found: dict[tuple[Variant, str], list[np.ndarray[Any, Any]]] = defaultdict(list)
        for record in self.measurements:
            for clock, series in record.clocks.items():
                found[record.variant.identity(), clock].append(np.asarray(series.seconds))
        return dict(found)


def collect(records: Iterable[tuple[Path, Record]]) -> Results:
    """Sort the records of one machine by kind.

    Raises
    ------
    RecordError
        No plan or no configuration, or two; two records of one invocation; a record of another kind of
        machine; timed jobs that overlapped.
    """
    pairs = list(records)
    plan = _single([record for _, record in pairs if isinstance(record, Plan)], "plan")
    configuration = _single(
        [record for _, record in pairs if isinstance(record, ConfigurationRecord)], "configuration"
    )
    _refuse_repeated(pairs)
    _refuse_foreign(pairs)
    _refuse_overlap(pairs)
    measurements = [record for _, record in pairs if isinstance(record, MeasurementRecord)]
    measurements.sort(key=lambda record: (record.variant.identity(), record.invocation))
    return Results(
        plan=plan,
        configuration=configuration.configuration.model_dump(),
        measurements=measurements,
        headlines=[record for _, record in pairs if isinstance(record, HeadlineRecord)],
        cold_starts=[record for _, record in pairs if isinstance(record, ColdStartRecord)],
        limits=[record for _, record in pairs if isinstance(record, LimitsRecord)],
        backends=[record for _, record in pairs if isinstance(record, BackendRecord)],
        ledgers=[record for _, record in pairs if isinstance(record, LedgerRecord)],
        witnesses=[record for _, record in pairs if isinstance(record, WitnessRecord)],
    )


def _single(found: list[OneRecord], name: str) -> OneRecord:
    if len(found) != 1:
        raise RecordError(
            f"{len(found)} records of a {name}; each machine's records hold exactly one {name}.json"
        )
    return found[0]


def _refuse_repeated(pairs: Iterable[tuple[Path, Record]]) -> None:
    seen: dict[tuple[Variant, int], Path] = {}
    for path, record in pairs:
        if isinstance(record, MeasurementRecord):
            key = record.variant.identity(), record.invocation
            if key in seen:
                raise RecordError(
                    f"{path} and {seen[key]} both claim to be invocation {record.invocation} "
                    "of one variant; delete one"
                )
            seen[key] = path


def _provenance(record: Record) -> ProvenanceModel | None:
    return None if isinstance(record, UNMEASURED) else record.provenance


def _refuse_foreign(pairs: Iterable[tuple[Path, Record]]) -> None:
    """One folder is one kind of machine. A CPU job sees no GPU.

    So GPUs are compared among the jobs that saw one.
    """
    known: dict[bool, tuple[Path, dict[str, Any]]] = {}
    for path, record in pairs:
        provenance = _provenance(record)
        if provenance is None:
            continue
        whole = provenance.fingerprint
        host = {key: value for key, value in whole.items() if not key.startswith(("gpu_", "compute_"))}
        for with_gpu, part in ((False, host), (True, whole)):
            if with_gpu and whole.get("gpu_name") is None:
                continue
            first_path, first = known.setdefault(with_gpu, (path, part))
            different = machine.fingerprint_difference(first, part)
            if different:
                raise RecordError(
                    f"{path} was measured on another kind of machine than {first_path}: "
                    f"{'; '.join(different)}. Records of two machines never mix: "
                    "give each its own label (machine: in the configuration)"
                )


def _refuse_overlap(pairs: Iterable[tuple[Path, Record]]) -> None:
    """Refuse timed jobs of one host that overlapped, as their own time stamps prove."""
    spans: dict[str, list[tuple[str, str, Path]]] = defaultdict(list)
    for path, record in pairs:
        provenance = _provenance(record)
        if provenance is not None and not isinstance(record, UNMEASURED) and record.run is not None:
            spans[provenance.host["hostname"]].append((record.run.start_utc, record.run.end_utc, path))
    for host, of_host in spans.items():
        for (_, end, earlier), (start, _, later) in itertools.pairwise(sorted(of_host)):
            if start < end:
                raise RecordError(
                    f"{earlier} and {later} were measured at the same time on {host} "
                    f"({start} is before {end}): each "
                    "disturbed the other. Delete both; the next run measures them one after the other"
                )


def variants(samples: Samples) -> pd.DataFrame:
    """Return the measured variants, each with the number that ``measurements`` names it by."""
    known = sorted({variant for variant, _ in samples})
    return pd.DataFrame(
        [{"variant": number, **asdict(variant)} for number, variant in enumerate(known)],
        columns=["variant", *FACTORS],
    )


def measurements(samples: Samples) -> pd.DataFrame:
    """Return every sample.

    Variant number, invocation, clock, sample number, seconds a call, whether it is an outlier.
    """
    numbers = {variant: number for number, variant in enumerate(sorted({variant for variant, _ in samples}))}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("variant", "invocation", "clock", "sample", "seconds", "outlier")
    }
    for (variant, clock), invocations in samples.items():
        for invocation, seconds in enumerate(invocations):
            columns["variant"].append(np.full(seconds.size, numbers[variant]))
            columns["invocation"].append(np.full(seconds.size, invocation))
            columns["clock"].append(np.full(seconds.size, clock, object))
            columns["sample"].append(np.arange(seconds.size))
            columns["seconds"].append(seconds)
            columns["outlier"].append(statistics.outlier_flags(seconds).astype(np.int8))
    if not samples:
        return pd.DataFrame(columns=list(columns))
    return pd.DataFrame({name: np.concatenate(parts) for name, parts in columns.items()})


def summary(results: Results, samples: Samples) -> pd.DataFrame:
    """Return median, interval, p5, p95, minimum and counts of every variant and clock, in seconds a call."""
    rule = results.rule
    stopped: dict[tuple[Variant, str], set[str]] = defaultdict(set)
    for record in results.measurements:
        for clock, series in record.clocks.items():
            stopped[record.variant.identity(), clock].add(series.stopped)
    rows = []
    for variant, timed in sorted(samples, key=_variant_and_clock):
        estimate = rule.estimate(samples[variant, timed])
        rows.append(
            {
                **asdict(variant),
                "clock": timed,
                **asdict(estimate),
                "stopped": "+".join(sorted(stopped[variant, timed])),
            }
        )
    columns = [
        "median",
        "low",
        "high",
        "p5",
        "p95",
        "minimum",
        "invocations",
        "samples",
        "outliers",
        "stopped",
    ]
    return pd.DataFrame(rows, columns=[*FACTORS, "clock", *columns])


def _variant_and_clock(key: tuple[Variant, str]) -> tuple[Variant, int]:
    return key[0], clocks.CLOCKS.index(key[1])


def baselines(variant: Variant, samples: Samples, clock: str) -> list[tuple[str, Variant]]:
    """Return what a variant is compared with.

    Only what computes the same result from the same sizes and dtypes.
    """
    same = asdict(variant)
    task = implementations.task_of(variant.implementation)
    slowest = LOOPS[variant.geometry] if task == LOOKUP else PLAIN[task]
    found = [(SAME_LOOP, Variant(**{**same, "implementation": slowest, "threads": 1}))]
    if variant.geometry == CORRECTED and task == LOOKUP:
        found.append(
            (
                NUMPY_FANCY,
                Variant(
                    **{
                        **same,
                        "backend": "numpy",
                        "implementation": "fancy_index",
                        "threads": 1,
                        "layout": "C",
                    }
                ),
            )
        )
    if variant.backend != "numpy":
        counts = sorted({one.threads for one, _ in samples})
        found += [(NUMPY_SAME, Variant(**{**same, "backend": "numpy", "threads": count})) for count in counts]
    return [(name, one) for name, one in found if one != variant and (one, clock) in samples]


def speedup(results: Results, samples: Samples) -> pd.DataFrame:
    """Return each variant's speed-up over its baselines.

    With interval and verdict, beside both absolute times.
    """
    rule = results.rule
    rows = []
    for variant, clock in sorted(samples, key=_variant_and_clock):
        if clock not in RANKED_CLOCKS:
            continue
        for name, baseline in baselines(variant, samples, clock):
            pair = samples[baseline, clock], samples[variant, clock]
            ratio = rule.ratio(*pair)
            rows.append(
                {
                    **asdict(variant),
                    "clock": clock,
                    "baseline": name,
                    "baseline_threads": baseline.threads,
                    "baseline_seconds": _median(pair[0]),
                    "seconds": _median(pair[1]),
                    "speedup": ratio.value,
                    "low": ratio.low,
                    "high": ratio.high,
                    "verdict": ratio.verdict,
                }
            )
    columns = [
        "baseline",
        "baseline_threads",
        "baseline_seconds",
        "seconds",
        "speedup",
        "low",
        "high",
        "verdict",
    ]
    return pd.DataFrame(rows, columns=[*FACTORS, "clock", *columns])


def _median(invocations: Sequence[np.ndarray[Any, Any]]) -> float:
    return float(np.median([np.median(samples) for samples in invocations]))


def crossover(speedups: pd.DataFrame) -> pd.DataFrame:
    """Return, for each implementation, the minibatch at which CuPy overtakes NumPy.

    With its bracket, or why there is none.
    """
    same = speedups[(speedups["baseline"] == NUMPY_SAME) & (speedups["backend"] == "cupy")]
    fixed = [name for name in FACTORS if name not in ("minibatch", "backend", "threads")]
    keys = [*fixed, "baseline_threads", "clock"]
    rows = []
    for key, group in same.groupby(keys, sort=True):
        ordered = group.sort_values("minibatch")
        ratios = [
            statistics.Ratio(row["speedup"], row["low"], row["high"], row["verdict"])
            for row in ordered.to_dict("records")
        ]
        found = statistics.crossover(ordered["minibatch"].tolist(), ratios)
        rows.append({**dict(zip(keys, key, strict=True)), **asdict(found), "description": found.describe()})
    return pd.DataFrame(rows, columns=[*keys, "kind", "minibatch", "low", "high", "reason", "description"])


HEADLINE = ["backend", "implementation", "source", "minibatch", "minibatches", "seconds", "low", "high"]


def headline(results: Results, samples: Samples) -> pd.DataFrame:
    """Return the question's run: its two numbers, the full runs here, and the extrapolations beside them."""
    rows = [_question_row(backend, seconds) for backend, seconds in QUESTION_SECONDS.items()]
    for record in results.headlines:
        rows.append(_measured_row(record))
        key = record.variant.identity(), clocks.THROUGHPUT
        if key in samples:
            rows.append(_extrapolated_row(record, samples[key], results.rule))
    frame = pd.DataFrame(rows, columns=[*HEADLINE, "fastest", "slowest", "status", "reason"])
    frame.insert(len(HEADLINE), "seconds_per_minibatch", frame["seconds"] / frame["minibatches"])
    return frame.sort_values(["implementation", "backend", "source"], kind="stable", ignore_index=True)


def _question_row(backend: str, seconds: float) -> dict[str, Any]:
    return {
        "backend": backend,
        "implementation": LOOPS[PUBLISHED],
        "source": "published",
        "minibatch": 2048,
        "minibatches": 1570,
        "seconds": seconds,
        "status": "ok",
        "reason": "as the question reports it, on its author's machine",
    }


def _measured_row(record: HeadlineRecord) -> dict[str, Any]:
    return {
        "backend": record.variant.backend,
        "implementation": record.variant.implementation,
        "source": "measured",
        "minibatch": record.variant.minibatch,
        "minibatches": record.minibatches,
        "seconds": record.seconds,
        "status": record.status,
        "reason": record.reason,
    }


def _extrapolated_row(
    record: HeadlineRecord, invocations: Sequence[np.ndarray[Any, Any]], rule: Rule
) -> dict[str, Any]:
    one = rule.estimate(invocations)
    count = record.minibatches
    return {
        **_measured_row(record),
        "source": "extrapolated",
        "seconds": one.median * count,
        "low": one.low * count,
        "high": one.high * count,
        "fastest": one.minimum * count,
        "slowest": max(float(seconds.max()) for seconds in invocations) * count,
        "status": "ok",
        "reason": f"median of the sampled minibatches x {count}",
    }


def cold_start(results: Results) -> pd.DataFrame:
    """Return the seconds of each stage of a fresh process up to its second call.

    By state of the kernel cache.
    """
    rule = results.rule
    found: dict[tuple[str, str, str, str], list[list[float]]] = defaultdict(list)
    for record in results.cold_starts:
        for cache, stages in record.caches.items():
            for stage, seconds in stages.items():
                key = (
                    record.variant.backend,
                    record.variant.implementation,
                    cache,
                    stage.removesuffix("_seconds"),
                )
                found[key].append([max(seconds, 1e-9)])
    rows = []
    for place, invocations in found.items():
        one = rule.estimate(invocations)
        names = dict(zip(("backend", "implementation", "cache", "stage"), place, strict=True))
        rows.append(
            {**names, "median": one.median, "low": one.low, "high": one.high, "invocations": one.invocations}
        )
    return pd.DataFrame(
        rows, columns=["backend", "implementation", "cache", "stage", "median", "low", "high", "invocations"]
    )


def limits(results: Results) -> pd.DataFrame:
    """Return the measured limits of this machine: seconds, or amounts a second, with intervals."""
    rule = results.rule
    found: dict[tuple[str, str], list[LimitModel]] = defaultdict(list)
    for record in sorted(results.limits, key=lambda one: (one.backend, one.invocation)):
        for limit in record.limits:
            found[record.backend, limit.name].append(limit)
    rows = []
    for (backend, name), invocations in found.items():
        first = invocations[0]
        measured = [np.asarray(limit.seconds) for limit in invocations if limit.seconds]
        median, low, high = _limit_seconds(measured, rule)
        if first.amount:
            median, low, high = first.amount / median, first.amount / high, first.amount / low
        rows.append(
            {
                "backend": backend,
                "name": name,
                "kind": first.kind,
                "clock": first.clock,
                "unit": first.unit,
                "value": median,
                "low": low,
                "high": high,
                "invocations": len(measured),
                "samples": sum(samples.size for samples in measured),
                "note": first.note,
            }
        )
    columns = [
        "backend",
        "name",
        "kind",
        "clock",
        "unit",
        "value",
        "low",
        "high",
        "invocations",
        "samples",
        "note",
    ]
    return pd.DataFrame(rows, columns=columns)


def _limit_seconds(measured: list[np.ndarray[Any, Any]], rule: Rule) -> tuple[float, float, float]:
    """Return median and interval.

    The cost of an item is a difference of two times, so noise can make a sample negative: then the medians of
    the processes stand for them, and where even one of those is negative there is no interval.
    """
    nowhere = float("nan")
    if not measured:
        return nowhere, nowhere, nowhere
    if any((samples <= 0).any() for samples in measured):
        medians = [float(np.median(samples)) for samples in measured]
        if min(medians) <= 0:
            return float(np.median(medians)), nowhere, nowhere
        measured = [np.array([median]) for median in medians]
    one = rule.estimate(measured)
    return one.median, one.low, one.high


def status(results: Results) -> pd.DataFrame:
    """Return every variant of the plan with what became of it, and why."""
    by_variant: dict[Variant, list[MeasurementRecord]] = defaultdict(list)
    for record in results.measurements:
        by_variant[record.variant.identity()].append(record)
    rows = []
    for planned in results.plan.variants:
        variant = planned.variant.identity()
        found = by_variant.get(variant, [])
        rows.append({**asdict(variant), **_fate(planned.status, planned.reason, found)})
    return pd.DataFrame(rows, columns=[*FACTORS, "status", "reason", "invocations"])


def _fate(planned: str, reason: str, found: list[MeasurementRecord]) -> dict[str, Any]:
    counts = {"invocations": sum(record.status == "ok" for record in found)}
    for worst in ("failed", "skipped"):
        reasons = [record.reason for record in found if record.status == worst]
        if reasons:
            return {"status": worst, "reason": reasons[0], **counts}
    if found:
        return {"status": "ok", "reason": "", **counts}
    if planned == "skipped":
        return {"status": "skipped", "reason": reason, **counts}
    return {"status": "failed", "reason": "no record: the job left none behind", **counts}


def environment(results: Results) -> pd.DataFrame:
    """Return what was in force: each value of the provenance, with the number of records that hold it."""
    counted: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    records: list[Any] = [
        *results.measurements,
        *results.headlines,
        *results.cold_starts,
        *results.limits,
        *results.backends,
        *results.ledgers,
    ]
    total = 0
    for record in records:
        if record.provenance is None:
            continue
        total += 1
        for section in ("host", "gpu", "software", "settings", "git"):
            for key, value in _flat(getattr(record.provenance, section) or {}):
                counted[section, key][str(value)] += 1
        if record.study.code_hash:
            counted["study", "code_hash"][record.study.code_hash] += 1
    order = ("host", "gpu", "software", "settings", "git", "study")
    places = sorted(counted, key=lambda place: (order.index(place[0]), place[1]))
    rows = [(*place, value, count) for place in places for value, count in sorted(counted[place].items())]
    return pd.DataFrame(rows, columns=["section", "key", "value", "records"])


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            for number, one in enumerate(value):
                yield from (
                    _flat(one, f"{prefix}{key}.{number}.")
                    if isinstance(one, Mapping)
                    else [(f"{prefix}{key}", one)]
                )
        elif value is not None:
            yield f"{prefix}{key}", value


def everything(results: Results) -> dict[str, pd.DataFrame]:
    """Return every table by name."""
    samples = results.samples()
    speedups = speedup(results, samples)
    return {
        "headline": headline(results, samples),
        "speedup": speedups,
        "crossover": crossover(speedups),
        "summary": summary(results, samples),
        "cold_start": cold_start(results),
        "limits": limits(results),
        "environment": environment(results),
        "status": status(results),
        "variants": variants(samples),
        "measurements": measurements(samples),
    }
