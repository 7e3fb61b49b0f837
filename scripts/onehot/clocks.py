"""The four clocks: enqueue, latency, throughput and device. Four quantities, four names, never mixed."""

import time
from collections.abc import Callable, Sequence
from typing import Any

ENQUEUE = "enqueue"
LATENCY = "latency"
THROUGHPUT = "throughput"
DEVICE_COLD = "device_cold"
DEVICE_HOT = "device_hot"
CLOCKS = (LATENCY, THROUGHPUT, ENQUEUE, DEVICE_COLD, DEVICE_HOT)

Call = Callable[[], Any]
Synchronize = Callable[[], None]


class Rotation:
    """Hands out the calls of a variant in turn, so that no two neighbouring calls read the same index set."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._next = 0

    def take(self, count: int) -> list[Call]:
        """Return the next ``count`` calls."""
        calls = self._calls
        taken = [calls[(self._next + offset) % len(calls)] for offset in range(count)]
        self._next = (self._next + count) % len(calls)
        return taken


def latency(calls: Sequence[Call], synchronize: Synchronize) -> float:
    """Return seconds a call, each from an idle stream to an idle stream."""
    synchronize()
    start = time.perf_counter_ns()
    for call in calls:
        call()
        synchronize()
    return (time.perf_counter_ns() - start) / 1e9 / len(calls)


def throughput(calls: Sequence[Call], synchronize: Synchronize) -> float:
    """Return seconds a call, of calls back to back with one synchronisation at the end."""
    synchronize()
    start = time.perf_counter_ns()
    for call in calls:
        call()
    synchronize()
    return (time.perf_counter_ns() - start) / 1e9 / len(calls)


def enqueue(calls: Sequence[Call], synchronize: Synchronize) -> float:
    """Return seconds that the host is held by one call; the device may not have begun.

    The calls meet an idle stream, and the clock stops before the synchronisation: what an unsynchronised
    timing claims.
    """
    synchronize()
    start = time.perf_counter_ns()
    for call in calls:
        call()
    stop = time.perf_counter_ns()
    synchronize()
    return (stop - start) / 1e9 / len(calls)


def timer_floor_seconds(repeats: int = 200) -> float:
    """Return the shortest time that a sample may take: 100 times the clock's resolution and its own cost."""
    resolution = time.get_clock_info("perf_counter").resolution
    costs = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        costs.append((time.perf_counter_ns() - start) / 1e9)
    return 100 * max(resolution, sorted(costs)[repeats // 2])
