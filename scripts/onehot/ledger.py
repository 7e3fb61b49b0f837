"""What one call asks of the machine: kernels, copies, synchronisations, calls of the driver, allocations.

The ledger is counted in a process of its own, never in a timed one. What is counted is one warm call and the
one synchronisation after it, as the latency clock spans them.

Three counters, each named in the record:

``cupti``
    CUPTI's activity records through cupti-python, an optional package: everything that reaches the device.
    CUPTI is switched on before the CUDA context exists, and RUNTIME and DRIVER both, or calls of one of them
    are missing.
``memory_hook``
    CuPy's own hook: what is asked of its pool, and what the pool asks of the driver. It needs nothing beyond
    CuPy, so it is what is left where CUPTI is missing; launches, copies and synchronisations are then absent
    with the reason, not guessed.
``tracemalloc``
    Python's own, which NumPy feeds: peak and remaining bytes of arrays on the host. It keeps no count of
    blocks that came and went; the page faults of the process stand beside it.

Bytes that NumPy copies leave no trace anywhere: ``model`` derives them from shapes.
"""

import dataclasses
import functools
import gc
import resource
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onehot import implementations, machine
from onehot.backends import registry as backends
from onehot.backends.base import Backend
from onehot.clocks import Call
from onehot.errors import UnavailableError
from onehot.job import Settings
from onehot.measurement import provenance, state
from onehot.preparation import prepare
from onehot.problem import Problem
from onehot.variant import Variant

KERNEL = "kernel"
COPY = "copy"
MEMSET = "memset"
SYNCHRONIZATION = "synchronization"
DRIVER = "driver"
RUNTIME = "runtime"

CATEGORIES = {
    "CONCURRENT_KERNEL": KERNEL,
    "KERNEL": KERNEL,
    "MEMCPY": COPY,
    "MEMCPY2": COPY,
    "MEMSET": MEMSET,
    "SYNCHRONIZATION": SYNCHRONIZATION,
    "DRIVER": DRIVER,
    "RUNTIME": RUNTIME,
}
"""CUPTI's name of an activity, and what it is called here; every other activity is left out."""

ENABLED = ("CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET", "SYNCHRONIZATION", "DRIVER", "RUNTIME")
"""CONCURRENT_KERNEL and not KERNEL, which would run the kernels one after the other."""

WAITS = frozenset({"STREAM_SYNCHRONIZE", "CONTEXT_SYNCHRONIZE", "EVENT_SYNCHRONIZE"})
"""Synchronisations that hold the host; a stream that waits for an event holds the device alone."""

BUFFER_BYTES = 8 << 20
WARM_CALLS = 2

NUMPY_DOMAIN = 389047
"""``np.lib.tracemalloc_domain``: arrays, as apart from Python's own objects."""


@dataclass(frozen=True)
class Activity:
    """One thing that reached the device, or one call of CUDA.

    Attributes
    ----------
    category : one of the six above.
    name : of the kernel, the copy's direction, the kind of synchronisation, or the function called.
    bytes_moved : of a copy or a memset; 0 elsewhere.
    seconds : between the two stamps of the record.
    """

    category: str
    name: str
    bytes_moved: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Copies:
    """Copies of one direction (``HTOD``, ``DTOH``, ``DTOD``, ...) and of one size."""

    direction: str
    bytes: int
    count: int


@dataclass(frozen=True)
class Memsets:
    """Memsets of one size."""

    bytes: int
    count: int


@dataclass(frozen=True)
class Counts:
    """The activities of one call, counted.

    Attributes
    ----------
    kernels : launches by name of the kernel.
    kernel_seconds : device seconds by name of the kernel.
    copies, memsets : by direction and size.
    synchronizations : by kind; see ``WAITS``.
    driver_calls, runtime_calls : by function.
    """

    kernels: dict[str, int]
    kernel_seconds: dict[str, float]
    copies: list[Copies]
    memsets: list[Memsets]
    synchronizations: dict[str, int]
    driver_calls: dict[str, int]
    runtime_calls: dict[str, int]


@dataclass
class Allocations:
    """What one call asked of a memory pool, and the pool of the driver.

    Attributes
    ----------
    requests, request_bytes : of the pool.
    real, real_bytes : of the driver: requests that the pool could not serve.
    peak_bytes : most bytes in use during the call, those before it included.
    """

    requests: int = 0
    request_bytes: int = 0
    real: int = 0
    real_bytes: int = 0
    peak_bytes: int = 0
    in_use: int = field(default=0, repr=False)

    def request(self, asked: int, rounded: int) -> None:
        """Count one request of the pool."""
        self.requests += 1
        self.request_bytes += asked
        self.in_use += rounded
        self.peak_bytes = max(self.peak_bytes, self.in_use)

    def allocation(self, rounded: int) -> None:
        """Count one allocation by the driver."""
        self.real += 1
        self.real_bytes += rounded

    def release(self, rounded: int) -> None:
        """Count memory given back to the pool."""
        self.in_use -= rounded

    def as_record(self) -> dict[str, int]:
        """Return the counts alone."""
        return {key: value for key, value in dataclasses.asdict(self).items() if key != "in_use"}


def count(activities: Iterable[Activity]) -> Counts:
    """Count activities by what they are and what they are called."""
    sorted_out: dict[str, list[Activity]] = defaultdict(list)
    for one in activities:
        sorted_out[one.category].append(one)
    seconds: dict[str, float] = defaultdict(float)
    for one in sorted_out[KERNEL]:
        seconds[one.name] += one.seconds
    copies = Counter((one.name, one.bytes_moved) for one in sorted_out[COPY])
    memsets = Counter(one.bytes_moved for one in sorted_out[MEMSET])
    return Counts(
        kernels=_by_name(sorted_out[KERNEL]),
        kernel_seconds=dict(sorted(seconds.items())),
        copies=[Copies(*key, number) for key, number in sorted(copies.items())],
        memsets=[Memsets(size, number) for size, number in sorted(memsets.items())],
        synchronizations=_by_name(sorted_out[SYNCHRONIZATION]),
        driver_calls=_by_name(sorted_out[DRIVER]),
        runtime_calls=_by_name(sorted_out[RUNTIME]),
    )


def _by_name(activities: Iterable[Activity]) -> dict[str, int]:
    return dict(sorted(Counter(one.name for one in activities).items()))


# CUPTI --------------------------------------------------------------------------------------------


class Cupti:
    """CUPTI's activity interface: switched on before CUDA starts, asked for one call at a time."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        self._collected: list[Activity] = []
        try:
            cupti.activity_register_callbacks(self._requested, self._completed)
            for name in ENABLED:
                cupti.activity_enable(cupti.ActivityKind[name])
        except Exception as error:  # cuptiError is the package's own; a driver that is too old raises others
            raise UnavailableError(f"CUPTI does not start: {type(error).__name__}: {error}") from error

    def counted(self, call: Call, synchronize: Callable[[], None]) -> Counts:
        """Return what one call and the synchronisation after it did; nothing else is in the counts."""
        synchronize()
        self._cupti.activity_flush_all(1)
        self._collected.clear()
        result = call()
        synchronize()
        self._cupti.activity_flush_all(1)
        del result
        return count(list(self._collected))

    def close(self) -> None:
        """Switch the records off."""
        for name in ENABLED:
            self._cupti.activity_disable(self._cupti.ActivityKind[name])

    def _requested(self) -> tuple[int, int]:
        """Return the size of a buffer, and 0 for as many records as fit."""
        return BUFFER_BYTES, 0

    def _completed(self, activities: list[Any]) -> None:
        """Read the records at once: their memory is CUPTI's again when this returns."""
        self._collected.extend(one for one in map(self._read, activities) if one is not None)

    def _read(self, record: Any) -> Activity | None:
        return read_activity(record, _Names(self._cupti))


class _Names:
    """What the numbers in CUPTI's records are called."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti

    def activity(self, number: int) -> str:
        return str(self._cupti.ActivityKind(number).name)

    def copy(self, number: int) -> str:
        return str(self._cupti.ActivityMemcpyKind(number).name)

    def synchronization(self, number: int) -> str:
        return str(self._cupti.ActivitySynchronizationType(number).name)

    def function(self, category: str, number: int) -> str:
        return _function_name(self._cupti, category, number)


@functools.cache
def _function_name(cupti: Any, category: str, number: int) -> str:
    domain = cupti.CallbackDomain.DRIVER_API if category == DRIVER else cupti.CallbackDomain.RUNTIME_API
    return str(cupti.get_callback_name(domain, number))


def read_activity(record: Any, names: Any) -> Activity | None:
    """Turn one record of CUPTI into an ``Activity``; None where it is of a kind that is not counted."""
    category = CATEGORIES.get(names.activity(record.kind))
    if category is None:
        return None
    seconds = max(record.end - record.start, 0) / 1e9
    if category == KERNEL:
        return Activity(category, record.name, 0, seconds)
    if category == COPY:
        return Activity(category, names.copy(record.copy_kind), int(record.bytes), seconds)
    if category == MEMSET:
        return Activity(category, "memset", int(record.bytes), seconds)
    if category == SYNCHRONIZATION:
        return Activity(category, names.synchronization(record.type), 0, seconds)
    return Activity(category, names.function(category, record.cbid), 0, seconds)


def start_cupti() -> Cupti:
    """Import cupti-python and switch it on; before CUDA starts.

    Raises
    ------
    UnavailableError
        Says what is missing and what to install.
    """
    try:
        from cupti import cupti
    except Exception as error:  # ImportError, or what a library that is missing or too new raises on loading
        text = " ".join(str(error).split())[:200]
        raise UnavailableError(f"cupti-python does not import ({text}); pip install cupti-python") from error
    return Cupti(cupti)


# Memory -------------------------------------------------------------------------------------------


@contextmanager
def pool_allocations(cupy: Any) -> Iterator[Allocations]:
    """Count what happens to CuPy's pool inside the block."""
    used = int(cupy.get_default_memory_pool().used_bytes())
    counted = Allocations(in_use=used, peak_bytes=used)

    class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc]  # its base class is known at run time alone
        name = "onehot_ledger"

        def malloc_postprocess(self, **event: Any) -> None:
            if event["mem_ptr"]:
                counted.request(event["size"], event["mem_size"])

        def alloc_postprocess(self, **event: Any) -> None:
            if event["mem_ptr"]:
                counted.allocation(event["mem_size"])

        def free_postprocess(self, **event: Any) -> None:
            counted.release(event["mem_size"])

    with Hook():
        yield counted


def device_memory(backend: Backend, call: Call) -> dict[str, dict[str, int]]:
    """Return the allocations of one call, from a warm pool and from an empty one."""
    cupy = backend.xp
    found = {}
    for name, empty in (("warm", False), ("empty_pool", True)):
        gc.collect()
        backend.synchronize()
        if empty:
            cupy.get_default_memory_pool().free_all_blocks()
        with pool_allocations(cupy) as counted:
            result = call()
            backend.synchronize()
            del result
        found[name] = counted.as_record()
    return found


def host_memory(call: Call, synchronize: Callable[[], None]) -> dict[str, int]:
    """Return what one call takes of the host's memory: peak and remaining bytes, and page faults.

    ``array_blocks`` and ``array_bytes`` are those of NumPy's arrays that are left when the call returns: its
    result. Page faults are counted in a call of their own: tracing allocates, too.
    """
    gc.collect()
    tracemalloc.start(1)
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = call()
        synchronize()
        peak = tracemalloc.get_traced_memory()[1] - before
        kept = [trace for trace in tracemalloc.take_snapshot().traces if trace.domain == NUMPY_DOMAIN]
    finally:
        tracemalloc.stop()
    del result
    faults = _page_faults()
    result = call()
    synchronize()
    faults = _page_faults() - faults
    del result
    return {
        "peak_bytes": peak,
        "array_blocks": len(kept),
        "array_bytes": sum(trace.size for trace in kept),
        "page_faults": faults,
    }


def _page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


# One variant --------------------------------------------------------------------------------------


def trace(variant: Variant, settings: Settings, study: Mapping[str, Any]) -> dict[str, Any]:
    """Count one call of a variant and return what its record holds beyond its identity.

    Raises
    ------
    UnavailableError
        The backend cannot run here, or the variant would not fit in its memory.
    """
    cupti, reason = _cupti_for(variant.backend)
    backend = backends.load(variant.backend)
    backend.probe()
    threads = backend.set_threads(variant.threads)
    entry = implementations.get(variant.implementation, variant.backend)
    _refuse_too_large(backend, entry.peak_bytes(variant, 1))
    known = provenance(backend, threads, Path(study["root"]))
    begin = machine.utc_now()
    call = prepare(backend, Problem(variant, settings.seed), 1).calls[0]
    for _ in range(WARM_CALLS):
        call()
    backend.synchronize()
    ledger = _counted(backend, call, cupti, reason)
    end = machine.utc_now()
    known["after"] = state(backend)
    return {
        "status": "ok",
        "reason": "",
        "minibatches_per_call": entry.group(variant),
        **ledger,
        "provenance": known,
        "run": {"start_utc": begin, "end_utc": end},
    }


def _cupti_for(backend: str) -> tuple[Cupti | None, str]:
    """Switch CUPTI on for a backend with a device, or say why it is not."""
    if not backends.on_device(backend):
        return None, f"{backend} computes on the host: nothing is launched, copied to a device or waited for"
    try:
        return start_cupti(), ""
    except UnavailableError as error:
        return None, f"no ledger: {error}"


def _refuse_too_large(backend: Backend, needed: int) -> None:
    free = backend.free_bytes()
    if needed > free:
        raise UnavailableError(f"needs {needed / 1e9:.2f} GB, {free / 1e9:.2f} GB are free")


def _counted(backend: Backend, call: Call, cupti: Cupti | None, reason: str) -> dict[str, Any]:
    """Count the call by every counter that there is; each in a call of its own."""
    ledger: dict[str, Any] = {"counted_by": [], "absent": {}}
    if cupti is None:
        ledger["absent"]["cupti"] = reason
    else:
        ledger["counts"] = dataclasses.asdict(cupti.counted(call, backend.synchronize))
        ledger["counted_by"].append("cupti")
        cupti.close()
    if hasattr(backend.xp, "get_default_memory_pool"):
        ledger["device_memory"] = device_memory(backend, call)
        ledger["counted_by"].append("memory_hook")
    elif backends.on_device(backend.name):
        ledger["absent"]["memory_hook"] = f"{backend.name} has no hook in its memory pool"
    ledger["host_memory"] = host_memory(call, backend.synchronize)
    ledger["counted_by"].append("tracemalloc")
    return ledger


__all__ = ["Activity", "Allocations", "Counts", "Cupti", "count", "read_activity", "trace"]
