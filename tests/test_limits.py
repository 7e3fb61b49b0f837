"""Limits: all of NumPy's on this CPU, the record's shape, and truths planted in a simulated machine."""

import functools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import limits as rule
import numpy as np
import pytest
from onehot import clocks, limits, sampling
from onehot.backends import registry
from onehot.limits import Entry, Limit, LimitSettings, Work

TINY = LimitSettings(
    seed=1, timeout_seconds=60, samples=6, call_seconds=0.003, bulk_seconds=0.003, scale=1 / 1024
)
ISSUE_3_ON_A_GPU = {
    "launch",
    "launch_and_wait",
    "synchronize_idle",
    "scalar_int",
    "allocate_small",
    "device_malloc_small",
    "device_malloc_large",
    "vstack_two",
    "copy_bandwidth",
    "memset_bandwidth",
    "write_bandwidth",
    "read_bandwidth",
    "l2_read_bandwidth",
    "l2_read_bandwidth_whole",
    "host_to_device_pageable",
    "host_to_device_pinned",
    "device_to_host_pageable",
    "device_to_host_pinned",
    "product_rate",
}
ISSUE_3_ON_A_CPU = {
    "elementwise",
    "vstack_two",
    "copy_bandwidth",
    "copy_bandwidth_all",
    "write_bandwidth",
    "write_bandwidth_all",
    "read_bandwidth",
    "read_bandwidth_all",
    "first_touch_bandwidth",
    "product_rate",
    "product_rate_all",
}


# NumPy, really measured --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_cpu() -> dict[str, Limit]:
    found = limits.measure_limits(registry.load("numpy"), TINY)
    assert [one.name for one in found] == limits.names("numpy")
    return {one.name: one for one in found}


@pytest.mark.parametrize("name", limits.names("numpy"))
def test_every_numpy_limit_is_measured(on_cpu: dict[str, Limit], name: str) -> None:
    one = on_cpu[name]
    assert one.seconds, one.note
    assert all(math.isfinite(value) for value in one.values)
    assert one.kind in limits.KINDS
    assert one.calls_per_sample >= 1
    if not name.endswith(("_item", "_element")):  # those are differences, which noise can turn negative
        assert min(one.values) > 0


@pytest.mark.parametrize("name", limits.names("numpy"))
def test_an_amount_goes_with_a_rate_and_with_nothing_else(on_cpu: dict[str, Limit], name: str) -> None:
    one = on_cpu[name]
    assert (one.amount > 0) == (one.unit != limits.SECONDS)
    assert one.note.strip().endswith(".")


def test_blas_is_left_with_one_thread(on_cpu: dict[str, Limit]) -> None:
    import threadpoolctl

    registry.load("numpy").set_threads(1)
    limits.measure_limits(registry.load("numpy"), TINY)
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    assert {pool["num_threads"] for pool in pools} <= {1}


# Names -------------------------------------------------------------------------------------------


def test_the_lists_hold_what_the_study_asks_for() -> None:
    assert set(limits.names("cupy")) >= ISSUE_3_ON_A_GPU
    assert set(limits.names("numpy")) >= ISSUE_3_ON_A_CPU


@pytest.mark.parametrize("backend", ["numpy", "cupy"])
def test_names_are_unique_and_only_a_queue_has_an_enqueue_clock(backend: str) -> None:
    found = limits.names(backend)
    assert len(found) == len(set(found))
    assert any(name.endswith("_enqueue") for name in found) == (backend == "cupy")


def test_the_supervisor_imports_no_array_library() -> None:
    code = "import sys, limits; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(rule.__file__).parent)


# The record --------------------------------------------------------------------------------------


def _record(tmp_path: Path, backend: str, **changes: Any) -> dict[str, Any]:
    settings = {"seed": 3, "timeout_seconds": 60, "samples": 2, "call_seconds": 1e-4, "bulk_seconds": 1e-4}
    settings |= {"scale": 1e-6, **changes}
    path = tmp_path / "limits.json"
    rule.main(backend, 1, settings, {"root": str(tmp_path), "config_hash": "abc"}, path)
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def test_the_record_holds_every_limit_and_its_provenance(tmp_path: Path) -> None:
    record = _record(tmp_path, "numpy")
    assert (record["schema"], record["kind"], record["status"], record["reason"]) == (1, "limits", "ok", "")
    assert (record["backend"], record["invocation"], record["study"]) == (
        "numpy",
        1,
        {"config_hash": "abc"},
    )
    assert [one["name"] for one in record["limits"]] == limits.names("numpy")
    assert Limit(**record["limits"][0]).name == limits.names("numpy")[0]
    assert record["run"]["start_utc"] <= record["run"]["end_utc"]
    assert {"host", "gpu", "software", "settings", "git", "before", "after"} <= set(record["provenance"])


def test_a_backend_that_cannot_run_has_a_record_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    record = _record(tmp_path, "cupy")
    assert record["status"] == "skipped"
    assert "CuPy" in record["reason"] or "hidden" in record["reason"]
    assert record["limits"] == []


def test_a_mistaken_setting_is_named_in_the_record(tmp_path: Path) -> None:
    record = _record(tmp_path, "numpy", samplez=3)
    assert record["status"] == "failed"
    assert "samplez" in record["reason"]


# A simulated machine -----------------------------------------------------------------------------


class Simulation:
    """A host and a device whose times pass only as planted; stands in for the module ``time``."""

    def __init__(self) -> None:
        self.host = 0.0
        self.device = 0.0

    def perf_counter(self) -> float:
        return self.host

    def perf_counter_ns(self) -> int:
        self.host += 5e-8
        return round(self.host * 1e9)

    def get_clock_info(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(resolution=1e-9)

    def run(self, host_seconds: float, device_seconds: float = 0.0) -> None:
        self.host += host_seconds
        self.device = max(self.device, self.host) + device_seconds

    def synchronize(self) -> None:
        self.host = max(self.host, self.device)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Simulation:
    simulation = Simulation()
    monkeypatch.setattr(clocks, "time", simulation)
    monkeypatch.setattr(sampling, "time", simulation)
    return simulation


def _backend(machine: Simulation, name: str = "numpy", xp: Any = np) -> Any:
    identity = {"l2_bytes": 1 << 20, "multiprocessors": 4, "tf32": False}
    return SimpleNamespace(
        name=name,
        xp=xp,
        synchronize=machine.synchronize,
        set_threads=lambda threads: max(threads, 1),
        free_bytes=lambda: 1 << 30,
        identity=lambda: identity,
    )


def _only(
    monkeypatch: pytest.MonkeyPatch,
    backend: Any,
    build: Callable[[Any], Work],
    unit: str,
    timed_by: tuple[str, ...],
) -> list[Limit]:
    entry = Entry("planted", "copy", unit, (backend.name,), timed_by, build)
    monkeypatch.setattr(limits, "ENTRIES", [entry])
    return limits.measure_limits(backend, LimitSettings(0, 60))


def test_a_planted_bandwidth_is_found(machine: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(bench: Any) -> Work:
        """Copy 64 MiB at 10 GB/s."""
        return Work(lambda: machine.run((1 << 26) / 1e10), float(1 << 26))

    (one,) = _only(monkeypatch, _backend(machine), copy, limits.BYTES_PER_SECOND, (clocks.THROUGHPUT,))
    assert one.values == pytest.approx([1e10] * 15, rel=1e-3)


def test_the_cost_of_one_more_item_is_free_of_the_calls_own_cost(
    machine: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stack(bench: Any) -> Work:
        """Stack."""
        return Work(
            lambda: machine.run(1e-4 + 256 * 3e-6), less=lambda: machine.run(1e-4 + 2 * 3e-6), items=254
        )

    (one,) = _only(monkeypatch, _backend(machine), stack, limits.SECONDS, (clocks.THROUGHPUT,))
    assert one.seconds == pytest.approx([3e-6] * 15, rel=1e-3)


def test_clocks_of_one_call_are_not_mixed(machine: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(bench: Any) -> Work:
        """Queue 5 us of work in 2 us."""
        return Work(lambda: machine.run(2e-6, 5e-6))

    timed_by = (clocks.THROUGHPUT, clocks.ENQUEUE, clocks.LATENCY)
    found = _only(monkeypatch, _backend(machine, "cupy"), call, limits.SECONDS, timed_by)
    assert [one.name for one in found] == ["planted", "planted_enqueue", "planted_latency"]
    for one, truth in zip(found, (5e-6, 2e-6, 7e-6), strict=True):
        assert one.seconds == pytest.approx([truth] * len(one.seconds), rel=0.02), one.name
        assert len(one.seconds) == 15
    assert found[1].calls_per_sample <= limits.QUEUED_MOST


def test_a_sample_outlasts_the_timer_a_hundred_times(
    machine: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(bench: Any) -> Work:
        """Do 1 ns of work."""
        return Work(lambda: machine.run(1e-9))

    (one,) = _only(monkeypatch, _backend(machine), call, limits.SECONDS, (clocks.THROUGHPUT,))
    assert one.calls_per_sample * min(one.seconds) >= 100 * 5e-8


def test_one_limit_that_fails_costs_no_other(machine: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(bench: Any) -> Work:
        raise RuntimeError("libcusparse.so is not there")

    def there(bench: Any) -> Work:
        """Wait."""
        return Work(lambda: machine.run(1e-5))

    entries = [
        Entry(f"{build.__name__}", "launch", limits.SECONDS, ("numpy",), (clocks.THROUGHPUT,), build)
        for build in (missing, there)
    ]
    monkeypatch.setattr(limits, "ENTRIES", entries)
    absent, present = limits.measure_limits(_backend(machine), LimitSettings(0, 60))
    assert (absent.seconds, absent.note) == ([], "absent: RuntimeError: libcusparse.so is not there")
    assert present.seconds


# A simulated GPU ---------------------------------------------------------------------------------

# a hundredth of an H200's: the arrays are small here, and a launch must not outlast them
COPY, MEMSET, WRITE, READ, FLOP, PINNED = 4.2e10, 4.5e10, 4.3e10, 4.0e10, 5e11, 5.5e8
LAUNCH_SECONDS = 4e-6


ADD_SECONDS, WAIT_SECONDS, NODE_SECONDS = 8e-6, 1.2e-5, 1.3e-6
ACROSS, CONTIGUOUS, BLOCK, GATHER, PRODUCT = 3e-8, 2e-11, 7e-10, 6e-10, 9e-10


class Flag:
    """The answer of ``any``: to know it, the host waits for the device."""

    def __init__(self, machine: Simulation) -> None:
        self.machine = machine

    def __bool__(self) -> bool:
        self.machine.run(0.0, WAIT_SECONDS)
        self.machine.synchronize()
        return True


class DeviceArray(np.ndarray[Any, Any]):
    """A NumPy array with what the limits use of CuPy's: its memory pointer, and calls of planted times."""

    machine: Simulation

    def __add__(self, other: Any) -> Any:
        self.machine.run(ADD_SECONDS, 1e-6)

    def any(self) -> Any:  # type: ignore[override]
        return Flag(self.machine)

    def argmax(self, axis: int | None = None) -> Any:  # type: ignore[override]
        """Take each row's time across memory; along it, that of all elements or of a single block."""
        rows, columns = self.shape
        along = max(rows * columns * CONTIGUOUS, columns * BLOCK)
        self.machine.run(LAUNCH_SECONDS, rows * ACROSS if axis == 0 else along)

    def __matmul__(self, other: Any) -> Any:
        raise AssertionError("no limit multiplies so on a simulated GPU")

    @property
    def data(self) -> Any:
        def copy(source: Any, size: int) -> None:
            self.machine.run(LAUNCH_SECONDS, 2 * size / COPY)

        def memset(value: int, size: int) -> None:
            self.machine.run(LAUNCH_SECONDS, size / MEMSET)

        return SimpleNamespace(copy_from_device_async=copy, memset_async=memset, ptr=self.ctypes.data)


class FakeCupy:
    """Enough of CuPy for the device's limits: kernels do their work at once and take the planted time."""

    def __init__(self, machine: Simulation, reads: float = 1.0) -> None:
        self.machine, self.reads, self.captured = machine, reads, None
        DeviceArray.machine = machine
        stream = SimpleNamespace(ptr=0)
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: stream,
            Stream=lambda non_blocking: FakeCapture(self),
            Event=lambda: FakeEvent(machine),
            get_elapsed_time=lambda start, stop: (stop.time - start.time) * 1e3,
            runtime=SimpleNamespace(
                malloc=self._malloc,
                free=lambda pointer: machine.run(1e-4),
                memcpyAsync=lambda target, source, size, *rest: machine.run(LAUNCH_SECONDS, size / PINNED),
                memcpyHostToDevice=1,
                memcpyDeviceToHost=2,
            ),
        )

    def __getattr__(self, name: str) -> Any:
        made = getattr(np, name)
        if name not in ("empty", "ones", "zeros", "asarray", "arange", "empty_like"):
            return made
        return lambda *arguments, **named: made(*arguments, **named).view(DeviceArray)

    def take(self, W: Any, J: Any, axis: int, out: Any) -> None:
        assert W.flags.c_contiguous and out.shape == (len(J), W.shape[1]) and J.max() < len(W)
        self.machine.run(LAUNCH_SECONDS, out.size * GATHER)

    def asfortranarray(self, source: Any) -> None:
        self.machine.run(LAUNCH_SECONDS, 2 * source.nbytes / COPY)

    def dot(self, A: Any, B: Any, out: Any) -> None:
        self.machine.run(LAUNCH_SECONDS, 2.0 * len(A) ** 3 / FLOP)

    def RawModule(self, code: str) -> Any:  # noqa: N802
        kernels = {"empty": self._empty, "fill16": self._fill, "read16": self._read}
        return SimpleNamespace(get_function=kernels.__getitem__)

    def _malloc(self, size: int) -> int:
        self.machine.run(1e-4)
        return size

    def _empty(self, grid: Any, block: Any, arguments: Any) -> None:
        if self.captured is None:
            self.machine.run(LAUNCH_SECONDS, 1e-6)
        else:
            self.captured += 1

    def _fill(self, grid: Any, block: Any, arguments: Any) -> None:
        table, n, value = arguments
        table.view("uint32")[: 4 * n] = value
        self.machine.run(LAUNCH_SECONDS, 16 * float(n) / WRITE)

    def _read(self, grid: Any, block: Any, arguments: Any) -> None:
        table, n, repeats, total = arguments
        words = table.view("uint32")[: int(4 * n * self.reads)]
        total[0] = (int(total[0]) + int(words.sum(dtype="uint64")) * int(repeats)) % (1 << 32)
        self.machine.run(LAUNCH_SECONDS, 16 * float(n) * float(repeats) / READ)


class FakeCapture:
    """A stream that counts the kernels queued to it and hands them out as a graph."""

    def __init__(self, cupy: FakeCupy) -> None:
        self.cupy = cupy

    def __enter__(self) -> "FakeCapture":
        return self

    def __exit__(self, *error: object) -> None:
        assert self.cupy.captured is None

    def begin_capture(self) -> None:
        self.cupy.captured = 0

    def end_capture(self) -> Any:
        count, self.cupy.captured = self.cupy.captured, None
        return SimpleNamespace(launch=lambda: self.cupy.machine.run(LAUNCH_SECONDS, count * NODE_SECONDS))


class FakeSparse:
    """A matrix in compressed sparse rows whose product takes the planted time."""

    def __init__(self, machine: Simulation, parts: tuple[Any, ...], shape: tuple[int, int]) -> None:
        values, columns, offsets = parts
        assert len(values) == len(columns) == shape[0] == len(offsets) - 1 and columns.max() < shape[1]
        self.machine, self.shape = machine, shape

    __array_ufunc__ = None

    def __matmul__(self, W: Any) -> None:
        self.machine.run(LAUNCH_SECONDS, 1e-5 + self.shape[0] * W.shape[1] * PRODUCT)


class FakeEvent:
    """A point on the device's line of time."""

    def __init__(self, machine: Simulation) -> None:
        self.machine, self.time = machine, 0.0

    def record(self, stream: Any) -> None:
        self.time = max(self.machine.device, self.machine.host)

    def synchronize(self) -> None:
        self.machine.host = max(self.machine.host, self.time)


FASTEST_OF_A_GPU = (
    "device_", "copy_", "memset_", "write_", "read_", "l2_", "host_", "product_rate", "launch",
)  # fmt: skip


def _on_fake_gpu(
    machine: Simulation,
    monkeypatch: pytest.MonkeyPatch,
    reads: float = 1.0,
    wanted: tuple[str, ...] = FASTEST_OF_A_GPU,
) -> dict[str, Limit]:
    def empty_pinned(size: int, dtype: Any) -> Any:
        return np.empty(size, dtype)

    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(empty_pinned=empty_pinned))
    backend = _backend(machine, "cupy", FakeCupy(machine, reads))
    backend.sparse = functools.partial(FakeSparse, machine)
    entries = [
        entry for entry in limits.ENTRIES if "cupy" in entry.backends and entry.name.startswith(wanted)
    ]
    monkeypatch.setattr(limits, "ENTRIES", entries)
    settings = LimitSettings(0, 60, samples=6, scale=1 / 64)
    return {one.name: one for one in limits.measure_limits(backend, settings)}


def test_planted_rates_of_a_gpu_are_found(machine: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _on_fake_gpu(machine, monkeypatch)
    truths = {
        "copy_bandwidth": COPY,
        "memset_bandwidth": MEMSET,
        "write_bandwidth": WRITE,
        "read_bandwidth": READ,
        "l2_read_bandwidth": READ,
        "l2_read_bandwidth_whole": READ,
        "product_rate": FLOP,
        "host_to_device_pinned": PINNED,
        "device_to_host_pinned": PINNED,
    }
    for name, truth in truths.items():
        assert found[name].seconds, found[name].note
        assert found[name].values == pytest.approx([truth] * 6, rel=0.02), name
    assert found["launch"].seconds == pytest.approx([LAUNCH_SECONDS] * 6, rel=0.02)
    assert found["launch_and_wait"].seconds == pytest.approx([LAUNCH_SECONDS + 1e-6] * 6, rel=0.05)


ITEMS_OF_A_GPU = {
    "argmax_across_item": ACROSS,
    "argmax_contiguous_element": CONTIGUOUS,
    "argmax_block_element": BLOCK,
    "gather_element": GATHER,
    "gather_wide_element": GATHER,
    "csr_element": PRODUCT,
    "graph_node_item": NODE_SECONDS,
}


def test_planted_items_of_a_gpu_are_found(machine: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shorter call takes a quarter of the longer one's work: the difference is free of launches."""
    found = _on_fake_gpu(machine, monkeypatch, wanted=(*ITEMS_OF_A_GPU, "transpose_bandwidth", "wait_item"))
    for name, truth in ITEMS_OF_A_GPU.items():
        assert found[name].seconds, found[name].note
        assert found[name].values == pytest.approx([truth] * len(found[name].values), rel=0.05), name
    assert found["transpose_bandwidth"].values == pytest.approx([COPY] * 6, rel=0.02)


def test_a_wait_amid_work_holds_what_it_takes_until_the_queue_is_empty(
    machine: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = _on_fake_gpu(machine, monkeypatch, wanted=("wait_item",)).values()
    assert one.seconds, one.note
    assert one.values == pytest.approx([WAIT_SECONDS + 1e-6] * len(one.values), rel=0.1)


def test_a_kernel_that_reads_half_its_table_is_not_timed(
    machine: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _on_fake_gpu(machine, monkeypatch, reads=0.5)
    for name in ("read_bandwidth", "l2_read_bandwidth", "l2_read_bandwidth_whole"):
        assert found[name].seconds == []
        assert "WrongResultError" in found[name].note
    assert found["copy_bandwidth"].seconds
