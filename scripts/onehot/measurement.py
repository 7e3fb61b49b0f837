"""One invocation of one variant.

Probe, prepare, check, time with every clock, and say all that is needed to trust it.
"""

import dataclasses
import gc
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onehot import clocks, implementations, machine, sampling
from onehot.backends import driver
from onehot.backends import registry as backends
from onehot.backends.base import Backend, DeviceTimer
from onehot.errors import UnavailableError
from onehot.implementations.registry import Implementation
from onehot.job import Settings, blank_record
from onehot.preparation import Prepared, index_sets, prepare
from onehot.problem import Problem
from onehot.variant import Variant

FIRST_PROBE = 64
PROBE_STEP = 4
"""A wider step foretold half of the time of a loop that outgrows a cache on its way."""
PROBE_SHARE = 0.1
"""Part of the limit that the call of one more probe may take, before a variant is given up by what is known.

A gather that outgrows a cache between two probes looks as if it grew with the square of the minibatch.
"""
WORST_GROWTH = 2.0
"""No implementation's time grows faster than the square of the minibatch.

``vstack`` copies 1 + 2 + … + m rows.
"""


class Stopwatch:
    """Seconds since the last look, for the stages of a start-up."""

    def __init__(self, start: float | None = None) -> None:
        self._last = time.perf_counter() if start is None else start

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        return elapsed


def measure(
    variant: Variant,
    invocation: int,
    settings: Settings,
    study: Mapping[str, Any],
    started: float,
    known_seconds: float | None = None,
) -> dict[str, Any]:
    """Measure one invocation and return its record, whose status is ``ok`` or ``skipped``.

    ``started`` is the ``time.perf_counter`` of the process before it imported an array library;
    ``known_seconds`` what a call took in an earlier invocation: then nothing is probed.

    Raises
    ------
    StudyError
        A wrong result, or a backend that cannot run here; the caller turns it into a record of its own.
    """
    watch = Stopwatch(started)
    backend, start_up = _start(variant.backend, watch)
    threads = backend.set_threads(variant.threads)
    entry = implementations.get(variant.implementation, variant.backend)
    record = blank_record(variant, invocation, study)
    record["settings"] = dataclasses.asdict(settings)
    record["provenance"] = provenance(backend, threads, Path(study["root"]))
    begin = machine.utc_now()
    skip, expected = _memory_skip(backend, entry, variant, settings), known_seconds
    if skip is None and known_seconds is None:
        skip, expected = _time_skip(backend, variant, settings)
    if skip:
        record |= {"status": "skipped", **skip}
    else:
        watch.lap()
        sets = index_sets(entry, variant, settings.index_sets, settings.input_bytes)
        prepared = prepare(backend, Problem(variant, settings.seed), sets)
        record["start_up"] = {
            **start_up,
            "inputs_seconds": watch.lap() - prepared.first_call_seconds,
            "prepare_seconds": prepared.prepare_seconds,
            "first_call_seconds": prepared.first_call_seconds,
        }
        record |= _timed(backend, entry, entry.group(variant), prepared, expected or 0.0, settings)
        record["status"] = "ok"
    record["run"] = {"start_utc": begin, "end_utc": machine.utc_now()}
    record["provenance"]["after"] = state(backend)
    return record


def _start(name: str, watch: Stopwatch) -> tuple[Backend, dict[str, float]]:
    """Return the backend, proved to run, with the seconds of its import and of what its context took then."""
    if backends.on_device(name):
        driver.wake()
    backend = backends.load(name)
    import_seconds = watch.lap()
    backend.probe()
    return backend, {"import_seconds": import_seconds, "context_seconds": watch.lap()}


def provenance(backend: Backend, threads: int, root: Path) -> dict[str, Any]:
    """Return machine, GPU, software and settings as they are in this process, and the state before timing."""
    host = machine.host()
    device = backend.identity()
    gpu = {**machine.gpu(device["uuid"]), **device} if device else None
    print_ = machine.fingerprint(host, gpu)
    return {
        "host": host,
        "gpu": gpu,
        "fingerprint": print_,
        "fingerprint_digest": machine.fingerprint_digest(print_),
        "software": machine.software(backend.name),
        "settings": {**machine.settings(), "threads_in_force": threads},
        "git": machine.study(root),
        "before": state(backend),
    }


def state(backend: Backend) -> dict[str, Any]:
    """Return the load of the host and the clocks, temperature and throttle reasons of the GPU, now."""
    device = backend.identity()
    return {"load": machine.load(), "gpu": machine.gpu_state(device["uuid"]) if device else None}


def _memory_skip(
    backend: Backend, entry: Implementation, variant: Variant, settings: Settings
) -> dict[str, Any] | None:
    sets = index_sets(entry, variant, settings.index_sets, settings.input_bytes)
    needed, free = entry.peak_bytes(variant, sets), backend.free_bytes()
    if needed <= free:
        return None
    return {
        "reason": f"needs {needed / 1e9:.2f} GB, {free / 1e9:.2f} GB are free",
        "skip": {"cause": "memory", "predicted": needed, "limit": free, "unit": "bytes", "probes": []},
    }


def _time_skip(
    backend: Backend, variant: Variant, settings: Settings
) -> tuple[dict[str, Any] | None, float | None]:
    """Probe at smaller minibatches until the size itself is known to be affordable, or not.

    The first probes are extrapolated by the worst growth there is, so a cheap variant is through after one
    or two; a variant is given up only on the growth that two probes have shown, and where the next one would
    take long by itself. Returns the skip, if any,
    and the seconds that one call is expected to take, where two probes tell.
    """
    limit = settings.call_limit_seconds
    probes: list[tuple[int, float]] = []
    m = min(FIRST_PROBE, variant.minibatch)
    while m < variant.minibatch:
        prepared = prepare(backend, Problem(variant.at(m), settings.seed), 1)
        probes.append((m, min(clocks.latency(prepared.calls, backend.synchronize) for _ in range(2))))
        if probes[-1][1] * (variant.minibatch / m) ** WORST_GROWTH <= limit:
            break
        predicted, following = (extrapolate(probes, size) for size in (variant.minibatch, m * PROBE_STEP))
        if predicted is not None and predicted > limit and (following or 0.0) > PROBE_SHARE * limit:
            skip = {
                "cause": "time",
                "predicted": predicted,
                "limit": limit,
                "unit": "seconds",
                "probes": probes,
            }
            return {
                "reason": f"one call is predicted to take {predicted:.3g} s, the limit is {limit:g} s",
                "skip": skip,
            }, predicted
        m *= PROBE_STEP
    return None, extrapolate(probes, variant.minibatch)


def extrapolate(probes: list[tuple[int, float]], minibatch: int) -> float | None:
    """Return the seconds predicted at a minibatch by the power law through the last two probes.

    None under two probes.
    """
    if len(probes) < 2:
        return None
    (m0, t0), (m1, t1) = probes[-2:]
    growth = math.log(max(t1, 1e-12) / max(t0, 1e-12)) / math.log(m1 / m0)
    return float(t1 * (minibatch / m1) ** min(max(growth, 0.0), WORST_GROWTH))


def _timed(
    backend: Backend,
    entry: Implementation,
    group: int,
    prepared: Prepared,
    expected_seconds: float,
    settings: Settings,
) -> dict[str, Any]:
    rotation = clocks.Rotation(prepared.calls)
    gc.collect()
    gc.disable()
    try:
        if expected_seconds > settings.budget_seconds:
            # The check was a call already, and the probes compiled what there is to compile: another one
            # would cost more than all that is spent on sampling.
            estimate = expected_seconds
        else:
            estimate = _warm_up(backend, rotation, settings.warmup_seconds)
        series, absent = _every_clock(backend, entry, group, rotation, estimate, settings)
    finally:
        gc.enable()
    return {
        "clocks": {name: dataclasses.asdict(one) for name, one in series.items()},
        "absent": absent,
        "index_sets": len(prepared.tokens),
        "minibatches_per_call": group,
        "distinct_rows": [int(np.unique(J).size) for J in prepared.tokens],
        "build_seconds": prepared.build_seconds,
    }


def _warm_up(backend: Backend, rotation: clocks.Rotation, seconds: float) -> float:
    """Call until caches, pools and clock rates have settled; return the shortest latency seen."""
    begin, shortest = time.perf_counter(), math.inf
    while shortest == math.inf or time.perf_counter() - begin + shortest < seconds:
        shortest = min(shortest, clocks.latency(rotation.take(1), backend.synchronize))
    return shortest


def _every_clock(
    backend: Backend,
    entry: Implementation,
    group: int,
    rotation: clocks.Rotation,
    estimate: float,
    settings: Settings,
) -> tuple[dict[str, sampling.Series], dict[str, str]]:
    absent = absences(backend, entry, group)
    timer = backend.device_timer() if clocks.DEVICE_COLD not in absent else None
    if backend.asynchronous and estimate > settings.budget_seconds:
        absent[clocks.ENQUEUE] = (
            "one call outlasts the whole sampling budget, which latency and throughput need"
        )
    share = settings.budget_seconds / (len(clocks.CLOCKS) - len(absent))
    rule = sampling.Rule(share, settings.target, settings.min_samples, settings.max_samples)
    floor = clocks.timer_floor_seconds()
    single = sampling.calls_for(estimate, floor)
    many = sampling.calls_for(estimate, min(max(settings.sample_seconds, floor), share / 5))

    def host(clock: Any, count: int) -> sampling.Series:
        return sampling.sample(
            lambda: clock(rotation.take(count), backend.synchronize) / group, rule, count * group
        )

    series = {clocks.THROUGHPUT: host(clocks.throughput, many)}
    for name, clock in ((clocks.LATENCY, clocks.latency), (clocks.ENQUEUE, clocks.enqueue)):
        if name in absent:
            continue
        if not backend.asynchronous and series[clocks.THROUGHPUT].stopped == sampling.SINGLE:
            # One call by itself, on a library that queues nothing: the two clocks are one.
            series[name] = series[clocks.THROUGHPUT]
        else:
            series[name] = host(clock, single)
    if timer is not None:
        for name in (clocks.DEVICE_COLD, clocks.DEVICE_HOT):
            try:
                series[name] = _device(timer, rotation, rule, group, cold=name == clocks.DEVICE_COLD)
            except UnavailableError as error:
                absent[name] = str(error)
    return series, absent


def _device(
    timer: DeviceTimer, rotation: clocks.Rotation, rule: sampling.Rule, group: int, *, cold: bool
) -> sampling.Series:
    timer.seconds(rotation.take(1)[0], cold=cold)  # the first use allocates events' resources
    return sampling.sample(lambda: timer.seconds(rotation.take(1)[0], cold=cold) / group, rule, group)


def absences(backend: Backend, entry: Implementation, group: int) -> dict[str, str]:
    """Return the clocks that a variant cannot have, each with its reason."""
    device = (clocks.DEVICE_COLD, clocks.DEVICE_HOT)
    absent: dict[str, str] = {}
    if not backend.asynchronous:
        reason = f"{backend.name} returns when the work is done: the host's time is the whole time"
        absent |= dict.fromkeys((clocks.ENQUEUE, *device), reason)
    elif entry.synchronises:
        reason = "the call waits for the device inside, so its stream cannot be held until it is queued"
        absent |= dict.fromkeys(device, reason)
    elif backend.no_device_timer:
        absent |= dict.fromkeys(device, backend.no_device_timer)
    if group > 1:
        reason = f"one call serves {group} minibatches: none of them has a latency of its own"
        absent |= dict.fromkeys((clocks.LATENCY, clocks.ENQUEUE), reason)
    return absent
