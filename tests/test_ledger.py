"""Counting what one call does: on planted records of CUPTI, on a fake CuPy, and on NumPy for real."""

import dataclasses
import enum
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from onehot import ledger, records
from onehot.errors import RecordError, UnavailableError
from onehot.job import Settings
from onehot.ledger import Activity, Copies, Memsets, count, read_activity
from onehot.variant import Variant

SETTINGS = Settings(7, 2, 1 << 20, 0.1, 0.05, 3, 10, 0.001, 0.001, 1.0, 60.0)


class Kind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    MEMCPY2 = 22
    SYNCHRONIZATION = 38
    OVERHEAD = 17


class CopyKind(enum.IntEnum):
    HTOD = 1
    DTOH = 2


class SyncKind(enum.IntEnum):
    STREAM_SYNCHRONIZE = 3
    STREAM_WAIT_EVENT = 2


class Domain(enum.IntEnum):
    DRIVER_API = 1
    RUNTIME_API = 2


def kernel(name, nanoseconds=1000):
    return SimpleNamespace(kind=10, start=5, end=5 + nanoseconds, name=name)


def copy(kind, size):
    return SimpleNamespace(kind=1, start=0, end=10, copy_kind=kind, bytes=size)


def call_of(kind, number):
    return SimpleNamespace(kind=kind, start=0, end=100, cbid=number)


class FakeCupti:
    """CUPTI's activity interface, fed by a test: it hands its records over when flushed,."""

    ActivityKind = Kind
    ActivityMemcpyKind = CopyKind
    ActivitySynchronizationType = SyncKind
    CallbackDomain = Domain

    def __init__(self):
        self.enabled, self.waiting = set(), []

    def activity_register_callbacks(self, requested, completed):
        assert requested() == (ledger.BUFFER_BYTES, 0)
        self.completed = completed

    def activity_enable(self, kind):
        self.enabled.add(kind)

    def activity_disable(self, kind):
        self.enabled.discard(kind)

    def activity_flush_all(self, flag):
        assert flag == 1
        handed, self.waiting = self.waiting, []
        self.completed(handed)
        for record in handed:  # the buffer is CUPTI's again: whoever reads a record later reads nonsense
            record.__dict__.clear()

    def get_callback_name(self, domain, number):
        return {(1, 307): "cuLaunchKernel", (1, 2): "cuStreamSynchronize", (2, 9): "cudaMalloc"}[
            domain, number
        ]


def published_minibatch():
    """The records of one published CuPy minibatch on an H200, as CUPTI gave them."""
    argmax = [kernel("cupy_argmax__float64_int64")] * 300
    take = [kernel("cupy_take_scalar")] * 300
    anys = [kernel("cupy_any__float64_bool"), *[kernel("cupy_any__float32_bool")] * (2 * 299)]
    stacks = [kernel("cupy_copy__float32_float32")] * (2 * 299)
    flags = [copy(2, 1)] * 300
    waits = [SimpleNamespace(kind=38, start=0, end=10, type=3)] * 301
    memset = [SimpleNamespace(kind=2, start=0, end=10, bytes=8, value=0)]
    calls = [call_of(4, 307)] * 1797 + [call_of(4, 2)] * 301 + [call_of(5, 9)]
    copied = [SimpleNamespace(**one.__dict__) for one in (*argmax, *take, *anys, *stacks, *flags, *waits)]
    return [*copied, *memset, *[SimpleNamespace(**one.__dict__) for one in calls]]


def test_the_planted_launches_of_the_published_loop_are_found():
    cupti = FakeCupti()
    session = ledger.Cupti(cupti)
    counts = session.counted(lambda: cupti.waiting.extend(published_minibatch()), lambda: None)
    assert sum(counts.kernels.values()) == 1797
    assert counts.kernels["cupy_argmax__float64_int64"] == 300
    assert counts.copies == [Copies("DTOH", 1, 300)]
    assert counts.memsets == [Memsets(8, 1)]
    assert counts.synchronizations == {"STREAM_SYNCHRONIZE": 301}
    assert counts.driver_calls == {"cuLaunchKernel": 1797, "cuStreamSynchronize": 301}
    assert counts.runtime_calls == {"cudaMalloc": 1}
    assert counts.kernel_seconds["cupy_take_scalar"] == pytest.approx(300e-6)


def test_runtime_and_driver_are_both_switched_on_and_off_again():
    cupti = FakeCupti()
    session = ledger.Cupti(cupti)
    assert {Kind.RUNTIME, Kind.DRIVER, Kind.CONCURRENT_KERNEL} <= cupti.enabled
    session.close()
    assert not cupti.enabled


def test_what_came_before_the_call_is_not_counted():
    cupti = FakeCupti()
    session = ledger.Cupti(cupti)
    cupti.waiting.append(kernel("warm_up"))
    assert session.counted(lambda: cupti.waiting.append(kernel("mine")), lambda: None).kernels == {"mine": 1}


def test_records_of_other_kinds_are_left_out():
    names = ledger._Names(FakeCupti())
    assert read_activity(SimpleNamespace(kind=17), names) is None
    assert read_activity(copy(1, 64), names) == Activity("copy", "HTOD", 64, 1e-8)


def test_nothing_counts_as_nothing():
    empty = count([])
    assert (empty.kernels, empty.copies, empty.driver_calls) == ({}, [], {})


def test_a_cupti_that_refuses_is_a_reason():
    class Refusing(FakeCupti):
        def activity_enable(self, kind):
            raise RuntimeError("CUPTI_ERROR_OLD_DRIVER")

    with pytest.raises(UnavailableError, match="OLD_DRIVER"):
        ledger.Cupti(Refusing())


def test_without_the_package_the_ledger_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupti", None)
    cupti, reason = ledger._cupti_for("cupy")
    assert cupti is None
    assert reason.startswith("no ledger: ")
    assert "pip install cupti-python" in reason


class FakePool:
    """A pool that serves 512 bytes at a time and asks the driver where it has nothing left."""

    def __init__(self):
        self.used, self.free = 2048, 0
        self.hooks = []

    def used_bytes(self):
        return self.used

    def free_all_blocks(self):
        self.free = 0

    def malloc(self, size):
        rounded = -(-size // 512) * 512
        for hook in self.hooks:
            if self.free < rounded:
                hook.alloc_postprocess(device_id=0, mem_size=rounded, mem_ptr=1)
            hook.malloc_postprocess(device_id=0, size=size, mem_size=rounded, mem_ptr=1, pmem_id=1)
        self.free = max(0, self.free - rounded)
        self.used += rounded
        return rounded

    def release(self, rounded):
        for hook in self.hooks:
            hook.free_postprocess(device_id=0, mem_size=rounded, mem_ptr=1, pmem_id=1)
        self.free += rounded
        self.used -= rounded


def fake_cupy(pool):
    class MemoryHook:
        def __enter__(self):
            pool.hooks.append(self)
            return self

        def __exit__(self, *_):
            pool.hooks.remove(self)

    return SimpleNamespace(cuda=SimpleNamespace(MemoryHook=MemoryHook), get_default_memory_pool=lambda: pool)


def test_pool_requests_real_allocations_and_the_peak_are_found():
    pool = FakePool()
    backend = SimpleNamespace(xp=fake_cupy(pool), synchronize=lambda: None)

    def call():
        first = pool.malloc(100)
        second = pool.malloc(600)
        pool.release(first)
        pool.release(second)

    call()
    found = ledger.device_memory(backend, call)
    assert found["warm"] == {
        "requests": 2,
        "request_bytes": 700,
        "real": 0,
        "real_bytes": 0,
        "peak_bytes": 2048 + 512 + 1024,
    }
    assert (found["empty_pool"]["real"], found["empty_pool"]["real_bytes"]) == (2, 1536)
    assert pool.hooks == []


def test_host_memory_sees_the_peak_and_what_is_left():
    def call():
        np.ones(1 << 20, np.uint8)
        return np.ones(1 << 16, np.uint8)

    found = ledger.host_memory(call, lambda: None)
    assert (1 << 20) <= found["peak_bytes"] < (1 << 20) + (1 << 17)
    assert found["array_blocks"] == 1
    assert found["array_bytes"] == 1 << 16


def variant(implementation="fancy_index", geometry="corrected"):
    return Variant(geometry, "numpy", implementation, 64, 500, 30, "float32", "int64", "uniform", 0.0, "C", 1)


def test_a_numpy_variant_leaves_a_record_that_is_read_strictly(tmp_path):
    body = ledger.trace(variant("loop_vstack"), SETTINGS, {"root": str(tmp_path)})
    record = {"schema": 1, "kind": "ledger", "variant": dataclasses.asdict(variant("loop_vstack")), **body}
    path = tmp_path / "one.json"
    path.write_text(json.dumps(record))
    read = records.read(path)
    assert isinstance(read, records.LedgerRecord)
    assert read.counted_by == ["tracemalloc"]
    assert "on the host" in read.absent["cupti"]
    assert read.host_memory.array_bytes == 64 * 30 * 4
    assert read.host_memory.peak_bytes >= 2 * 63 * 30 * 4  # the grown copy beside the rows so far


def test_counts_with_a_key_too_many_are_refused(tmp_path):
    body = {"counts": {**dataclasses.asdict(count([])), "kernals": {}}, "status": "ok", "reason": ""}
    path = tmp_path / "one.json"
    path.write_text(
        json.dumps({"schema": 1, "kind": "ledger", "variant": dataclasses.asdict(variant()), **body})
    )
    with pytest.raises(RecordError, match="kernals"):
        records.read(path)


def test_a_variant_that_does_not_fit_is_not_begun():
    backend = SimpleNamespace(free_bytes=lambda: 10)
    with pytest.raises(UnavailableError, match="needs 0"):
        ledger._refuse_too_large(backend, 11)
