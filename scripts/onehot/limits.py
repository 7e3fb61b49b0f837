"""Limits of one machine: what a call, a launch, a wait, an allocation and a byte cost.

The limits are unit costs for the model and bounds for the figures. Each is of a *kind* (an elementwise
call, a concatenation, a byte copied), on arrays too small to matter or too large for a cache, never of a
variant of the study.

A limit is one function below: it builds its arrays and returns the call to time. The decorator says its
kind, its unit and its clocks. ``names`` lists them on a machine without a GPU.

Clocks (see ``clocks.py``): ``throughput`` is k calls back to back and one synchronisation, divided
by k; ``enqueue`` is the host's part of them; ``latency`` is one call from an idle stream to an idle stream;
``device`` is CUDA events around launches queued back to back behind a first one, so that no gap of the host
is between them.
"""

import contextlib
import functools
import gc
import itertools
import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from onehot import clocks, machine, sampling
from onehot.backends.base import Backend
from onehot.errors import UnavailableError, WrongResultError

SECONDS = "seconds"
BYTES_PER_SECOND = "bytes_per_second"
FLOP_PER_SECOND = "flop_per_second"

DEVICE = "device"
"""Events around several launches back to back: the device's time of each, without the host's gaps."""

HOST_CALL = (clocks.THROUGHPUT, clocks.ENQUEUE)
WAITING = (clocks.THROUGHPUT,)
"""A call that waits for its own result, or queues nothing: the host's part is the whole."""

NUMPY, CUPY = ("numpy",), ("cupy",)
BOTH = ("numpy", "cupy")

KINDS = {
    "python": "calling a Python function that does nothing: it is in every other host cost too",
    "launch": "a kernel that does nothing",
    "synchronize": "waiting for a stream that is idle already",
    "scalar_copy": "one scalar copied to the host, which waits for it",
    "allocation": "memory asked for and given back",
    "elementwise": "a call that makes each element from its neighbours at the same place",
    "reduction": "a call that makes one element of many",
    "argmax": "the position of the largest element",
    "view": "indexing by a Python int: no element moves",
    "index": "indexing by a scalar that an array library returned",
    "gather": "rows picked by a short index vector",
    "concatenation": "small arrays copied into a new one",
    "assignment": "one row looked up and written to its place",
    "to_list": "an array turned into Python objects",
    "iteration": "one step of a Python loop over the rows of an array",
    "product": "a dense product",
    "sparse_product": "a matrix in compressed sparse rows times a dense one",
    "copy": "bytes read and written, both counted",
    "write": "bytes written",
    "read": "bytes read",
    "transfer": "bytes between host and device",
}

ROW = 300
"""Elements of a small row: the question's embedding, 1200 bytes of float32."""

TALL = 2048
"""Elements of the longer argmax: the question's minibatch."""

LONG = 1 << 15
"""Elements of the long array where the cost of one more element is asked for."""

STRIDED_MOST = 1 << 17
"""Elements of the device's long strided argmax: its kernel outlasts the host's part of the call."""

COLUMNS = 96
"""Columns of the device's generic matrices: no power of two, three blocks of a reduction."""

ACROSS_MOST = 1 << 17
"""Rows of the device's argmax along the slow axis: 100 MB of float64, more than the L2."""

CONTIGUOUS_ROW = 20_000
"""Elements of each of the 4096 rows whose argmax the device is asked for."""

BLOCK_ROW = 320_000
"""Elements of a row that one block alone looks at: a quarter of them outlasts the host's part of the call."""

GATHERED_TABLE, GATHERED_MOST = 1 << 14, 1 << 20
"""Rows of a table that fits in the device's L2 (6 MB), and rows taken from it."""

GRAPH_NODES = 500
"""Kernels of the longer graph; a tenth of them outlasts the host's launch of the shorter one."""

PICKED = 256
"""Rows of 1 KiB that NumPy looks up at once: they fit in a core's cache where they go."""

MIB = 1 << 20
ROWS_CACHED_BYTES, ROWS_LAST_BYTES = MIB, 16 * MIB
"""Tables of such rows that a core's own cache holds, and the cache that cores share."""

LARGE_BYTES = {"numpy": 256 * MIB, "cupy": 1024 * MIB}
"""Size of each of the two large buffers: 17 times an H200's L2; on the CPU it follows the last cache."""

LAST_CACHE_BYTES = 4 << 20
"""Size of each of the two buffers of the CPU's copy in the cache that its cores share."""

REMAINDERS, REMAINDERS_MOST = 16, 1 << 24
"""Remainders that one thread takes, and threads: enough that arithmetic, not memory, is the bound."""

CACHED_BYTES = 128 * 1024
"""Size of each of the two buffers of the CPU's copy in cache: a core's L2 holds both."""

L2_READ_BYTES = 12 << 30
"""Read by one launch of the L2 limit: about 2 ms at the 6.4 TB/s seen on an H200."""

DEVICE_SAMPLE_SECONDS = 2e-3
MOST_CALLS = 100_000
QUEUED_MOST = 100
"""Calls of one enqueue sample: a launch queue holds about 1024 entries, and a full one holds the host."""

KERNELS = r"""
__device__ __forceinline__ uint4 load_l2(const uint4* from) {
    // volatile: no repeat is merged with the one before; .cg passes the L1 by: repeats come from the L2
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}

__device__ __forceinline__ unsigned int sum4(uint4 v) { return v.x + v.y + v.z + v.w; }

// The sum of all words, times repeats, is added to *sum: a result that is used cannot be optimised away.
extern "C" __global__ void read16(const uint4* table, long long n, int repeats, unsigned int* sum) {
    __shared__ unsigned int block_sum;
    if (threadIdx.x == 0) block_sum = 0;
    __syncthreads();
    unsigned int mine = 0;
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (int repeat = 0; repeat < repeats; ++repeat) {
        // each repeat hands every block another part: a gather's rows come from anywhere in the L2, too
        const long long block = (blockIdx.x + 37LL * repeat) % gridDim.x;
        long long i = block * blockDim.x + threadIdx.x;
        for (; i + 3 * stride < n; i += 4 * stride) {
            const uint4 a = load_l2(table + i), b = load_l2(table + i + stride);
            const uint4 c = load_l2(table + i + 2 * stride), d = load_l2(table + i + 3 * stride);
            mine += sum4(a) + sum4(b) + sum4(c) + sum4(d);
        }
        for (; i < n; i += stride) mine += sum4(load_l2(table + i));
    }
    atomicAdd(&block_sum, mine);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(sum, block_sum);
}

extern "C" __global__ void fill16(uint4* table, long long n, unsigned int value) {
    const uint4 v = make_uint4(value, value, value, value);
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) table[i] = v;
}

extern "C" __global__ void empty() {}
"""

FILLED = 0x02030405
"""What ``fill16`` writes: no buffer held it before, so a kernel that wrote nothing is found out."""

THREADS_A_BLOCK = 256
BLOCKS_A_MULTIPROCESSOR = 8


@dataclass(frozen=True)
class LimitSettings:
    """How one invocation measures its limits.

    Attributes
    ----------
    seed : of the order in which the limits are measured.
    timeout_seconds : after which the supervisor ends the process; not read here.
    samples : of each limit, where its budget allows.
    call_seconds : budget of a limit of unit ``seconds``; a slow machine spends up to 1.5 times as much.
    bulk_seconds : budget of a limit that moves bytes or multiplies; likewise.
    scale : of the sizes of large arrays; below 1 for tests only.
    """

    seed: int
    timeout_seconds: float
    samples: int = 15
    call_seconds: float = 0.04
    bulk_seconds: float = 0.3
    scale: float = 1.0


@dataclass(frozen=True)
class Limit:
    """One limit of this machine, in one clock.

    Attributes
    ----------
    name : the limit's function, and the clock where it is not the first.
    unit : of the limit: ``seconds`` (a call, or an item), ``bytes_per_second`` or ``flop_per_second``.
    kind : one of ``KINDS``.
    seconds : samples, of one call or one item; empty where the limit cannot be measured here. An item's is a
        difference of two times, so noise can make one negative.
    amount : bytes or operations of one call; 0 where the unit is seconds.
    note : what was called, on what sizes; or why the limit is absent.
    clock : ``throughput``, ``enqueue``, ``latency`` or ``device``.
    calls_per_sample : calls that a sample spans.
    """

    name: str
    unit: str
    kind: str
    seconds: list[float]
    amount: float
    note: str
    clock: str
    calls_per_sample: int = 1

    @property
    def values(self) -> list[float]:
        """Samples in the limit's unit."""
        return self.seconds if self.unit == SECONDS else [self.amount / one for one in self.seconds]


@dataclass(frozen=True)
class Work:
    """What a limit times.

    Attributes
    ----------
    call : timed; what it returns is dropped at once.
    amount : bytes or operations of one call.
    less : a shorter call of the same kind; the limit is then the difference, an item.
    items : by which ``call`` does more than ``less``.
    threads : of BLAS while the limit is measured; 0 asks for every core.
    note : the sizes.
    """

    call: clocks.Call
    amount: float = 0.0
    less: clocks.Call | None = None
    items: int = 1
    threads: int = 1
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """A registered limit: the function that builds its work, and how that is timed."""

    name: str
    kind: str
    unit: str
    backends: tuple[str, ...]
    clocks: tuple[str, ...]
    build: "Callable[[Bench], Work]"

    @property
    def doc(self) -> str:
        """First line of the function's docstring."""
        return (self.build.__doc__ or "").strip().splitlines()[0]

    def clocks_on(self, backend_name: str) -> tuple[str, ...]:
        """Return the clocks that mean something on a backend: NumPy's calls are done when they return."""
        return tuple(clock for clock in self.clocks if backend_name != "numpy" or clock != clocks.ENQUEUE)

    def name_in(self, clock: str) -> str:
        """Return the limit's name in one of its clocks."""
        return self.name if clock == self.clocks[0] else f"{self.name}_{clock}"


ENTRIES: list[Entry] = []
"""Every limit, in the order of this file."""

Build = Callable[["Bench"], Work]

Timed = Callable[[int], float]
"""Times a number of calls and returns seconds a call."""


def limit(
    kind: str,
    *,
    unit: str = SECONDS,
    backends: tuple[str, ...] = BOTH,
    clocks: tuple[str, ...] = HOST_CALL,
    name: str | None = None,
) -> Callable[[Build], Build]:
    """Register the function below as a limit: its name, and the first line of its docstring as the note."""
    assert kind in KINDS, kind

    def register(build: Build) -> Build:
        ENTRIES.append(Entry(name or build.__name__, kind, unit, backends, clocks, build))
        return build

    return register


def names(backend_name: str) -> list[str]:
    """Names of the limits that a backend has, without importing its library."""
    entries = [entry for entry in ENTRIES if backend_name in entry.backends]
    return [entry.name_in(clock) for entry in entries for clock in entry.clocks_on(backend_name)]


def measure_limits(backend: Backend, settings: LimitSettings) -> list[Limit]:
    """Measure every limit of a backend and return them in the order of ``names``.

    They are measured in an order shuffled by the seed. BLAS is held to one thread, and left so, but where a
    limit says otherwise.
    """
    entries = [entry for entry in ENTRIES if backend.name in entry.backends]
    order = random.Random(settings.seed).sample(range(len(entries)), len(entries))
    measured: dict[int, list[Limit]] = {}
    backend.set_threads(1)
    with contextlib.ExitStack() as resources:
        resources.enter_context(_no_garbage_collection())
        bench = Bench(backend, settings, resources)
        for index in order:
            measured[index] = _measured_or_absent(bench, entries[index])
    return [one for index in range(len(entries)) for one in measured[index]]


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _measured_or_absent(bench: "Bench", entry: Entry) -> list[Limit]:
    """Return the limits of an entry; without samples, and with the reason, where it cannot be measured here.

    One library without cuSPARSE or SciPy must not cost the machine its other limits.
    """
    try:
        return _measured(bench, entry)
    except Exception as error:  # array libraries raise errors of every base class, CuPy's bindings their own
        text = " ".join(str(error).split())
        reason = f"absent: {type(error).__name__}: {text[:300]}"
        return [
            Limit(entry.name_in(clock), entry.unit, entry.kind, [], 0.0, reason, clock, 0)
            for clock in entry.clocks_on(bench.backend.name)
        ]


def _measured(bench: "Bench", entry: Entry) -> list[Limit]:
    work = entry.build(bench)
    note = f"{entry.doc} {work.note}".strip()
    found = []
    with _blas_threads(bench.backend, work.threads):
        for clock in entry.clocks_on(bench.backend.name):
            seconds, count = _samples(bench, work, clock)
            name = entry.name_in(clock)
            found.append(Limit(name, entry.unit, entry.kind, seconds, work.amount, note, clock, count))
    return found


@contextlib.contextmanager
def _blas_threads(backend: Backend, threads: int) -> Iterator[None]:
    """Set the threads of products for one limit; setting takes milliseconds, and one is in force already."""
    if threads == 1:
        yield
        return
    backend.set_threads(threads)
    try:
        yield
    finally:
        backend.set_threads(1)


def _samples(bench: "Bench", work: Work, clock: str) -> tuple[list[float], int]:
    """Return seconds a call (or an item), and the calls of a sample."""
    settings = bench.settings
    budget = settings.bulk_seconds if work.amount else settings.call_seconds
    share = max(budget / settings.samples, clocks.timer_floor_seconds())
    if clock == DEVICE:
        share = DEVICE_SAMPLE_SECONDS
    most = QUEUED_MOST if clock == clocks.ENQUEUE else MOST_CALLS
    timed, count = _warm(_timer(bench, work.call, clock), share, most)
    less = _warm(_timer(bench, work.less, clock), share, most) if work.less is not None else None

    def measure() -> float:
        if less is None:
            return timed(count)
        shorter, shorter_count = less
        return (timed(count) - shorter(shorter_count)) / work.items

    rule = sampling.Rule(1.5 * budget * (1 if less is None else 2), 0.0, settings.samples, settings.samples)
    return sampling.sample(measure, rule, count).seconds, count


def _timer(bench: "Bench", call: clocks.Call, clock: str) -> Timed:
    """Return the timer of a call in a clock."""
    if clock == DEVICE:
        return functools.partial(_device_seconds, bench.xp, call)
    span = {
        clocks.THROUGHPUT: clocks.throughput,
        clocks.ENQUEUE: clocks.enqueue,
        clocks.LATENCY: clocks.latency,
    }[clock]
    return lambda count: span([call] * count, bench.backend.synchronize)


def _warm(timed: Timed, share: float, most: int) -> tuple[Timed, int]:
    """Warm a call up, and return its timer with the number of calls that fill a sample's share of time."""
    timed(1)  # compiles, loads libraries, fills the pool
    count = sampling.calls_for(timed(1), share, most)
    return timed, sampling.calls_for(timed(count), share, most) if count > 1 else 1


def _device_seconds(xp: Any, call: clocks.Call, count: int) -> float:
    """Return the device's seconds a call; one is queued before the clock starts: the device never waits."""
    stream = xp.cuda.get_current_stream()
    start, stop = xp.cuda.Event(), xp.cuda.Event()
    call()
    start.record(stream)
    for _ in range(count):
        call()
    stop.record(stream)
    stop.synchronize()
    return float(xp.cuda.get_elapsed_time(start, stop)) / 1e3 / count


class Bench:
    """What the limits share: the backend, sizes that fit its memory, and buffers that are built once.

    The two large buffers take at most an eighth of the memory that was free, and the arrays of any one
    limit another: a quarter together.
    """

    def __init__(self, backend: Backend, settings: LimitSettings, resources: contextlib.ExitStack) -> None:
        self.backend = backend
        self.xp = backend.xp
        self.settings = settings
        self._eighth = backend.free_bytes() // 8
        self._resources = resources

    def bytes_for(self, wanted: int, arrays: int = 1) -> int:
        """Return the size of each of some arrays held at once: scaled, in an eighth of the free memory."""
        fitting = min(int(wanted * self.settings.scale), self._eighth // arrays)
        return max(fitting, 1 << 16) >> 12 << 12

    @functools.cached_property
    def table(self) -> Any:
        """A few rows of float32."""
        return self.xp.ones((64, ROW), "float32")

    @functools.cached_property
    def few(self) -> Any:
        """Four indices of the table."""
        return self.xp.asarray([3, 1, 0, 2])

    @functools.cached_property
    def large(self) -> tuple[Any, Any]:
        """Two touched byte buffers, together at least four times the last cache (the CPU's up to 256 MiB)."""
        wanted = LARGE_BYTES[self.backend.name]
        if self.backend.name == "numpy":
            wanted = min(max(wanted, 2 * (machine.host()["l3_bytes"] or 0)), 2 * wanted)
        size = self.bytes_for(wanted, arrays=2)
        buffers = self.xp.empty(size, "uint8"), self.xp.empty(size, "uint8")
        for buffer in buffers:
            buffer.fill(1)
        return buffers

    @functools.cached_property
    def cores(self) -> int:
        """Cores that this process may use."""
        return int(machine.host()["affinity_count"] or 1)

    @functools.cached_property
    def pool(self) -> ThreadPoolExecutor:
        """One thread a core; NumPy lets go of the interpreter's lock while it copies, fills and reduces."""
        return self._resources.enter_context(ThreadPoolExecutor(self.cores))

    def on_all_cores(self, function: Callable[..., Any], *arrays: Any) -> clocks.Call:
        """Return a call that runs a function on as many slices of the arrays as there are cores."""
        slices = [self.xp.array_split(array, self.cores) for array in arrays]
        return lambda: list(self.pool.map(function, *slices))

    @functools.cached_property
    def kernels(self) -> Any:
        """The module of the study's own kernels."""
        return self.xp.RawModule(code=KERNELS)

    @functools.cached_property
    def grid(self) -> tuple[tuple[int], tuple[int]]:
        """Blocks and threads that fill the device."""
        return (self.backend.identity()["multiprocessors"] * BLOCKS_A_MULTIPROCESSOR,), (THREADS_A_BLOCK,)


# Calls on arrays too small to matter --------------------------------------------------------------


@limit("python", clocks=WAITING)
def python_call(bench: Bench) -> Work:
    """Call a function that does nothing."""
    return Work(lambda: None)


@limit("elementwise")
def elementwise(bench: Bench) -> Work:
    """Add two rows of 300 float32."""
    x = bench.table[0]
    return Work(lambda: x + x)


@limit("reduction")
def any_array(bench: Bench) -> Work:
    """Ask whether any of 300 float32 is true, and leave the answer in an array."""
    x = bench.table[0]
    return Work(lambda: x.any())


@limit("reduction", clocks=WAITING)
def any_bool(bench: Bench) -> Work:
    """Ask whether any of 300 float32 is true, and turn the answer into a Python bool."""
    x = bench.table[0]
    return Work(lambda: bool(x.any()))


@limit("reduction", backends=NUMPY)
def any_element(bench: Bench) -> Work:
    """One more element of ``any`` over float32: NumPy casts every element to bool first."""
    short, tall = bench.table[0], bench.xp.ones(ROW * ROW, "float32")
    items = ROW * ROW - ROW
    return Work(lambda: tall.any(), less=lambda: short.any(), items=items, note="300 and 90 000 elements.")


@limit("argmax")
def argmax_strided(bench: Bench) -> Work:
    """Argmax of a column of float64, 2400 bytes between elements."""
    rows = 1 if bench.backend.name == "numpy" else 16
    return Work(_argmax_of_columns(bench, rows), note=f"{rows} elements.")


@limit("argmax", backends=NUMPY)
def argmax_strided_element(bench: Bench) -> Work:
    """One more element of a strided argmax; columns in turn share their cache lines."""
    tall, one = _argmax_of_columns(bench, TALL), _argmax_of_columns(bench, 1)
    return Work(tall, less=one, items=TALL - 1, note=f"1 and {TALL} elements.")


@limit("argmax", backends=CUPY, clocks=WAITING, name="argmax_strided_element")
def argmax_strided_element_on_device(bench: Bench) -> Work:
    """One more element of a strided argmax, in columns whose kernel outlasts the host's part of the call."""
    X = bench.large[0].view("float64")
    most = min(STRIDED_MOST, X.size // ROW)
    X = X[: most * ROW].reshape(most, ROW)
    tall, short = X[:, 0], X[: most // 4, 0]
    argmax = bench.xp.argmax
    return Work(
        lambda: argmax(tall),
        less=lambda: argmax(short),
        items=most - most // 4,
        note=f"{most // 4} and {most} elements.",
    )


@limit("argmax", backends=NUMPY)
def argmax_far_element(bench: Bench) -> Work:
    """One more element of a strided argmax of a column whose cache lines outgrow a core's cache."""
    X = bench.large[0].view("float64")
    most = min(STRIDED_MOST, X.size // ROW)
    X = X[: most * ROW].reshape(most, ROW)
    tall, short = (itertools.cycle(list(part.T)) for part in (X, X[:1]))
    argmax = bench.xp.argmax
    return Work(
        lambda: argmax(next(tall)),
        less=lambda: argmax(next(short)),
        items=most - 1,
        note=f"1 and {most} elements.",
    )


@limit("argmax", backends=CUPY, clocks=(DEVICE,))
def argmax_across_item(bench: Bench) -> Work:
    """One more row of an argmax along the slow axis of a matrix of float64, of all its columns at once."""
    X = bench.large[0].view("float64")
    most = min(ACROSS_MOST, X.size // COLUMNS)
    X = X[: most * COLUMNS].reshape(most, COLUMNS)
    short = X[: most // 4]
    return Work(
        lambda: X.argmax(axis=0),
        less=lambda: short.argmax(axis=0),
        items=most - most // 4,
        note=f"{most // 4} and {most} rows of {COLUMNS}.",
    )


@limit("argmax", backends=CUPY, clocks=(DEVICE,), name="argmax_contiguous_element")
def argmax_contiguous_element_on_device(bench: Bench) -> Work:
    """One more element of an argmax along the rows of a matrix of float32, a block of threads a row."""
    X = bench.large[0].view("float32")
    rows = min(4096, X.size // CONTIGUOUS_ROW)
    X = X[: rows * CONTIGUOUS_ROW].reshape(rows, CONTIGUOUS_ROW)
    short = X[: rows // 4]
    return Work(
        lambda: X.argmax(axis=1),
        less=lambda: short.argmax(axis=1),
        items=(rows - rows // 4) * CONTIGUOUS_ROW,
        note=f"{rows // 4} and {rows} rows of {CONTIGUOUS_ROW}.",
    )


@limit("argmax", backends=CUPY, clocks=(DEVICE,))
def argmax_block_element(bench: Bench) -> Work:
    """One more element of each of 32 rows of float32 whose argmax has a multiprocessor to itself."""
    X = bench.large[0].view("float32")
    length = min(BLOCK_ROW, X.size // 32)
    tall, short = (X[: 32 * count].reshape(32, count) for count in (length, length // 4))
    return Work(
        lambda: tall.argmax(axis=1),
        less=lambda: short.argmax(axis=1),
        items=length - length // 4,
        note=f"32 rows of {length // 4} and of {length}.",
    )


@limit("elementwise", backends=CUPY, clocks=WAITING)
def remainder_element(bench: Bench) -> Work:
    """One 64-bit integer remainder on the device, as an index kernel takes it to find its row and column."""
    divisor, numbers = bench.xp.int64(ROW), bench.large[0].view("int64")[:REMAINDERS_MOST]
    many, one = (_remainders(bench, count) for count in (REMAINDERS, 1))
    answers = bench.xp.empty_like(numbers)
    return Work(
        lambda: many(numbers, divisor, answers),
        less=lambda: one(numbers, divisor, answers),
        items=(REMAINDERS - 1) * numbers.size,
        note=f"1 and {REMAINDERS} remainders of {numbers.size} numbers.",
    )


def _remainders(bench: Bench, count: int) -> Any:
    step = "value = (value + k + i) % divisor;"
    body = f"long long value = x; for (int k = 0; k < {count}; ++k) {{ {step} }} y = value;"
    return bench.xp.ElementwiseKernel("int64 x, int64 divisor", "int64 y", body, f"remainders_{count}")


def _argmax_of_columns(bench: Bench, rows: int) -> clocks.Call:
    columns = itertools.cycle(list(bench.xp.ones((rows, ROW)).T))
    argmax = bench.xp.argmax
    return lambda: argmax(next(columns))


@limit("argmax")
def argmax_contiguous(bench: Bench) -> Work:
    """Argmax of 16 float64 side by side."""
    x, argmax = bench.xp.ones(16), bench.xp.argmax
    return Work(lambda: argmax(x))


@limit("argmax", backends=NUMPY)
def argmax_contiguous_element(bench: Bench) -> Work:
    """One more element of a contiguous argmax of float64."""
    short, tall, argmax = bench.xp.ones(16), bench.xp.ones(LONG), bench.xp.argmax
    return Work(
        lambda: argmax(tall), less=lambda: argmax(short), items=LONG - 16, note=f"16 and {LONG} elements."
    )


@limit("argmax")
def argmax_axis(bench: Bench) -> Work:
    """Argmax along the rows of a (4, 300) array of float32."""
    X = bench.table[:4]
    return Work(lambda: X.argmax(axis=1))


@limit("view", clocks=WAITING)
def index_int(bench: Bench) -> Work:
    """Look a row up by a Python int: a view."""
    W = bench.table
    return Work(lambda: W[5])


@limit("index")
def index_0d(bench: Bench) -> Work:
    """Look a row up by what ``argmax`` returns: a NumPy scalar (a view), a 0-d CuPy array (a kernel)."""
    W, j = bench.table, bench.xp.argmax(bench.table[0])
    return Work(lambda: W[j])


@limit("gather")
def fancy_index_few(bench: Bench) -> Work:
    """Look four rows up by an index vector."""
    W, J = bench.table, bench.few
    return Work(lambda: W[J])


@limit("transfer", backends=CUPY)
def asarray_few(bench: Bench) -> Work:
    """Send 16 int64 from ordinary host memory to the device: the host's part of a transfer, not its bytes."""
    import numpy as np

    J, asarray = np.arange(16), bench.xp.asarray
    return Work(lambda: asarray(J))


@limit("gather")
def take_few(bench: Bench) -> Work:
    """Take four rows."""
    W, J, take = bench.table, bench.few, bench.xp.take
    return Work(lambda: take(W, J, axis=0))


@limit("gather")
def take_out_few(bench: Bench) -> Work:
    """Take four rows into an array that exists; NumPy in mode clip, which alone does not buffer."""
    W, J, take = bench.table, bench.few, bench.xp.take
    h = bench.xp.empty((len(J), ROW), W.dtype)
    mode = {"mode": "clip"} if bench.backend.name == "numpy" else {}
    return Work(lambda: take(W, J, axis=0, out=h, **mode))


@limit("gather", backends=CUPY, clocks=(DEVICE,))
def gather_element(bench: Bench) -> Work:
    """One more element of 4 bytes that CuPy's take moves, bytes included, from a table in the L2."""
    return _gathered(bench, "float32", COLUMNS)


@limit("gather", backends=CUPY, clocks=(DEVICE,))
def gather_wide_element(bench: Bench) -> Work:
    """One more element of 16 bytes that CuPy's take moves, bytes included, from a table in the L2."""
    return _gathered(bench, "complex128", COLUMNS // 4)


def _gathered(bench: Bench, dtype: str, columns: int) -> Work:
    source, target = (buffer.view(dtype) for buffer in bench.large)
    most = min(GATHERED_MOST, target.size // columns)
    rows = min(GATHERED_TABLE, most)
    W = source[: rows * columns].reshape(rows, columns)
    h = target[: most * columns].reshape(most, columns)
    J = bench.xp.arange(most) * 7919 % rows  # neighbours are far apart
    few, h_few = J[: most // 4], h[: most // 4]
    take = bench.xp.take
    return Work(
        lambda: take(W, J, axis=0, out=h),
        less=lambda: take(W, few, axis=0, out=h_few),
        items=(most - most // 4) * columns,
        note=f"{most // 4} and {most} rows of {columns} {dtype}.",
    )


@limit("gather", backends=NUMPY)
def row_cached_item(bench: Bench) -> Work:
    """One more row of 1 KiB looked up at random in a table that a core's own cache holds."""
    return _picked(bench, ROWS_CACHED_BYTES)


@limit("gather", backends=NUMPY)
def row_last_item(bench: Bench) -> Work:
    """One more row of 1 KiB looked up at random in a table that only the cores' shared cache holds."""
    return _picked(bench, ROWS_LAST_BYTES)


@limit("gather", backends=NUMPY)
def row_memory_item(bench: Bench) -> Work:
    """One more row of 1 KiB looked up at random in a table that no cache holds."""
    return _picked(bench, bench.large[0].nbytes)


def _picked(bench: Bench, size: int) -> Work:
    """Return the work of rows that go to a small array; all rows of the table have their turn."""
    xp = bench.xp
    W = bench.large[0][:size].view("float32").reshape(-1, 256)
    picked = min(PICKED, len(W))
    turns = xp.random.default_rng(len(W)).permutation(len(W) // picked * picked).reshape(-1, picked)
    many, few = itertools.cycle(list(turns)), itertools.cycle(list(turns[:, : picked // 16]))
    h, h_few = xp.empty((picked, 256), "float32"), xp.empty((picked // 16, 256), "float32")
    take = xp.take
    return Work(
        lambda: take(W, next(many), axis=0, out=h, mode="clip"),
        less=lambda: take(W, next(few), axis=0, out=h_few, mode="clip"),
        items=picked - picked // 16,
        note=f"{picked // 16} and {picked} of {len(W)} rows.",
    )


@limit("concatenation")
def vstack_two(bench: Bench) -> Work:
    """Stack two rows of 300 float32."""
    x, vstack = bench.table[0], bench.xp.vstack
    return Work(lambda: vstack((x, x)))


@limit("concatenation")
def stack_two(bench: Bench) -> Work:
    """Stack a list of two rows of 300 float32."""
    rows, stack = list(bench.table[:2]), bench.xp.stack
    return Work(lambda: stack(rows))


@limit("concatenation")
def stack_item(bench: Bench) -> Work:
    """One more row of 300 float32 in the list that is stacked."""
    few, stack = list(bench.table[:2]), bench.xp.stack
    many = list(bench.table) * 4
    return Work(
        lambda: stack(many), less=lambda: stack(few), items=len(many) - 2, note=f"2 and {len(many)} rows."
    )


@limit("assignment")
def assign_row(bench: Bench) -> Work:
    """Look a row of 300 float32 up by a Python int and write it to its place: h[i] = W[j]."""
    h, W = bench.xp.empty((4, ROW), "float32"), bench.table

    def assign() -> None:
        h[2] = W[5]

    return Work(assign)


@limit("to_list", clocks=WAITING)
def to_list(bench: Bench) -> Work:
    """Turn 16 int64 into Python ints."""
    J = bench.xp.arange(16)
    return Work(lambda: J.tolist())


@limit("to_list", clocks=WAITING)
def to_list_item(bench: Bench) -> Work:
    """One more int64 turned into a Python int."""
    few, many = bench.xp.arange(16), bench.xp.arange(LONG)
    return Work(
        lambda: many.tolist(), less=lambda: few.tolist(), items=LONG - 16, note=f"16 and {LONG} integers."
    )


@limit("iteration", clocks=WAITING)
def iterate_item(bench: Bench) -> Work:
    """One step of a Python loop over the rows of an array."""
    few, many = bench.table[:2], bench.table

    def iterate(rows: Any) -> None:
        for _ in rows:
            pass

    return Work(lambda: iterate(many), less=lambda: iterate(few), items=62, note="2 and 64 rows.")


@limit("product")
def matmul_small(bench: Bench) -> Work:
    """Multiply (4, 64) by (64, 300) in float32."""
    X, W = bench.xp.ones((4, 64), "float32"), bench.table
    return Work(lambda: X @ W)


@limit("sparse_product")
def csr_small(bench: Bench) -> Work:
    """Multiply a (4, 64) matrix in compressed sparse rows, one entry a row, by (64, 300) in float32."""
    import numpy as np

    parts = np.ones(4, np.float32), np.array([3, 1, 0, 2], np.int32), np.arange(5, dtype=np.int32)
    X, W = bench.backend.sparse(parts, (4, 64)), bench.table
    return Work(lambda: X @ W)


@limit("sparse_product", backends=CUPY, clocks=(DEVICE,))
def csr_element(bench: Bench) -> Work:
    """One more element of a product of compressed sparse rows, one entry a row, with a table in the L2."""
    import numpy as np

    most = bench.bytes_for(GATHERED_MOST * COLUMNS * 4) // (COLUMNS * 4)
    rows = min(GATHERED_TABLE, most)
    W = bench.xp.ones((rows, COLUMNS), "float32")

    def sparse(count: int) -> Any:
        columns = (np.arange(count) * 7919 % rows).astype(np.int32)
        parts = np.ones(count, np.float32), columns, np.arange(count + 1, dtype=np.int32)
        return bench.backend.sparse(parts, (count, rows))

    many, few = sparse(most), sparse(most // 4)
    return Work(
        lambda: many @ W,
        less=lambda: few @ W,
        items=(most - most // 4) * COLUMNS,
        note=f"{most // 4} and {most} rows of {COLUMNS}.",
    )


# Launches, waits and allocations ------------------------------------------------------------------


@limit("launch", backends=CUPY)
def launch(bench: Bench) -> Work:
    """Launch a RawKernel that does nothing."""
    kernel = bench.kernels.get_function("empty")
    return Work(lambda: kernel((1,), (1,), ()))


@limit("launch", backends=CUPY, clocks=(clocks.LATENCY,))
def launch_and_wait(bench: Bench) -> Work:
    """Launch a RawKernel that does nothing, and synchronise."""
    return launch(bench)


@limit("launch", backends=CUPY, clocks=(DEVICE,))
def graph_node_item(bench: Bench) -> Work:
    """One more kernel that does nothing in a graph of kernels that follow each other."""
    few, many = GRAPH_NODES // 10, GRAPH_NODES
    graphs = [_graph_of_nothing(bench, count) for count in (many, few)]
    return Work(graphs[0].launch, less=graphs[1].launch, items=many - few, note=f"{few} and {many} kernels.")


def _graph_of_nothing(bench: Bench, count: int) -> Any:
    kernel = bench.kernels.get_function("empty")
    kernel((1,), (1,), ())  # loads it, which a capture must not do
    bench.backend.synchronize()
    with bench.xp.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        for _ in range(count):
            kernel((1,), (1,), ())
        return stream.end_capture()


@limit("synchronize", backends=CUPY, clocks=WAITING)
def wait_item(bench: Bench) -> Work:
    """Copy one bool to the host behind four additions just queued, less the additions: a wait amid work."""
    x = bench.table[0]
    flag = x.any()

    def add() -> None:
        for _ in range(4):
            x + x

    def add_and_wait() -> None:
        add()
        bool(flag)

    return Work(add_and_wait, less=add)


@limit("synchronize", backends=CUPY, clocks=WAITING)
def synchronize_idle(bench: Bench) -> Work:
    """Synchronise a stream that has nothing to do."""
    return Work(bench.backend.synchronize)


@limit("scalar_copy", backends=CUPY, clocks=WAITING)
def scalar_int(bench: Bench) -> Work:
    """Copy one int64 to the host: int(x)."""
    x = bench.xp.argmax(bench.table[0])
    return Work(lambda: int(x))


@limit("scalar_copy", backends=CUPY, clocks=WAITING)
def scalar_bool(bench: Bench) -> Work:
    """Copy one bool to the host: bool(x)."""
    x = bench.table[0].any()
    return Work(lambda: bool(x))


@limit("allocation", clocks=WAITING)
def allocate_small(bench: Bench) -> Work:
    """Ask for 1 KiB and give it back: from CuPy's warm pool, from NumPy's and the C library's heap."""
    empty = bench.xp.empty
    return Work(lambda: empty(1024, "uint8"))


@limit("allocation", backends=NUMPY)
def allocate_large(bench: Bench) -> Work:
    """Ask for a large array and give it back untouched: the C library maps and unmaps it."""
    size, empty = bench.bytes_for(64 * MIB), bench.xp.empty
    return Work(lambda: empty(size, "uint8"), note=f"{size} bytes.")


@limit("allocation", backends=CUPY, clocks=WAITING)
def device_malloc_small(bench: Bench) -> Work:
    """Ask the driver for 1 KiB and give it back: cudaMalloc and cudaFree."""
    return _malloc(bench, 1024)


@limit("allocation", backends=CUPY, clocks=WAITING)
def device_malloc_large(bench: Bench) -> Work:
    """Ask the driver for a large block and give it back: cudaMalloc and cudaFree."""
    return _malloc(bench, bench.bytes_for(64 * MIB))


def _malloc(bench: Bench, size: int) -> Work:
    runtime = bench.xp.cuda.runtime
    return Work(lambda: runtime.free(runtime.malloc(size)), note=f"{size} bytes.")


# The CPU's memory ---------------------------------------------------------------------------------


def bandwidth(
    kind: str, backends: tuple[str, ...], clock: str, name: str | None = None
) -> Callable[[Build], Build]:
    """Register a limit in bytes a second, in one clock."""
    return limit(kind, unit=BYTES_PER_SECOND, backends=backends, clocks=(clock,), name=name)


@bandwidth("copy", NUMPY, clocks.THROUGHPUT)
def copy_bandwidth(bench: Bench) -> Work:
    """Copy one large array to another with one thread; read and write counted, a write-allocate not."""
    (source, target), copyto = bench.large, bench.xp.copyto
    return Work(lambda: copyto(target, source), 2.0 * source.nbytes, note=f"{source.nbytes} bytes each.")


@bandwidth("copy", NUMPY, clocks.THROUGHPUT)
def copy_bandwidth_all(bench: Bench) -> Work:
    """Copy one large array to another with one thread a core, each a slice."""
    source, target = bench.large
    call = bench.on_all_cores(bench.xp.copyto, target, source)
    return Work(call, 2.0 * source.nbytes, note=f"{source.nbytes} bytes each, {bench.cores} threads.")


@bandwidth("copy", NUMPY, clocks.THROUGHPUT)
def copy_bandwidth_cached(bench: Bench) -> Work:
    """Copy between two arrays that stay in a core's cache, with one thread; read and write counted."""
    source, target = bench.xp.ones((2, CACHED_BYTES), "uint8")
    copyto = bench.xp.copyto
    return Work(lambda: copyto(target, source), 2.0 * CACHED_BYTES, note=f"{CACHED_BYTES} bytes each.")


@bandwidth("copy", NUMPY, clocks.THROUGHPUT)
def copy_bandwidth_last(bench: Bench) -> Work:
    """Copy between arrays too large for a core's own cache and small enough for the shared one.

    With one thread.
    """
    source, target = bench.xp.ones((2, LAST_CACHE_BYTES), "uint8")
    copyto = bench.xp.copyto
    return Work(
        lambda: copyto(target, source), 2.0 * LAST_CACHE_BYTES, note=f"{LAST_CACHE_BYTES} bytes each."
    )


@bandwidth("write", NUMPY, clocks.THROUGHPUT)
def write_bandwidth(bench: Bench) -> Work:
    """Fill a large array that exists with one thread, two such arrays in turn."""
    targets = itertools.cycle(bench.large)
    size = bench.large[0].nbytes
    return Work(lambda: next(targets).fill(2), float(size), note=f"{size} bytes.")


@bandwidth("write", NUMPY, clocks.THROUGHPUT)
def write_bandwidth_all(bench: Bench) -> Work:
    """Fill a large array that exists with one thread a core, two such arrays in turn."""
    calls = itertools.cycle([bench.on_all_cores(lambda part: part.fill(2), target) for target in bench.large])
    size = bench.large[0].nbytes
    return Work(lambda: next(calls)(), float(size), note=f"{size} bytes, {bench.cores} threads.")


# np.max over float32 is as fast as any reduction that NumPy has: seen 10.1 GB/s on one core, where BLAS's dot
# product reads 10.5 and np.sum, which adds pairwise, 6.7. It needs no BLAS, so its threads are only ours.
@bandwidth("read", NUMPY, clocks.THROUGHPUT)
def read_bandwidth(bench: Bench) -> Work:
    """Take the maximum of a large float32 array with one thread, two such arrays in turn."""
    sources = itertools.cycle([source.view("float32") for source in bench.large])
    size = bench.large[0].nbytes
    return Work(lambda: next(sources).max(), float(size), note=f"{size} bytes.")


@bandwidth("read", NUMPY, clocks.THROUGHPUT)
def read_bandwidth_all(bench: Bench) -> Work:
    """Take the maximum of a large float32 array with one thread a core, two such arrays in turn."""
    sources = [source.view("float32") for source in bench.large]
    calls = itertools.cycle([bench.on_all_cores(lambda part: part.max(), source) for source in sources])
    size = bench.large[0].nbytes
    return Work(lambda: next(calls)(), float(size), note=f"{size} bytes, {bench.cores} threads.")


@bandwidth("allocation", NUMPY, clocks.THROUGHPUT)
def first_touch_bandwidth(bench: Bench) -> Work:
    """Ask for a large array, fill it, give it back: every page faults; see ``refill_bandwidth``."""
    size, empty = bench.bytes_for(64 * MIB), bench.xp.empty
    return Work(lambda: empty(size, "uint8").fill(1), float(size), note=f"{size} bytes.")


@bandwidth("write", NUMPY, clocks.THROUGHPUT)
def refill_bandwidth(bench: Bench) -> Work:
    """Fill an array of the size of ``first_touch_bandwidth`` that has been touched."""
    size = bench.bytes_for(64 * MIB)
    target = bench.xp.ones(size, "uint8")
    return Work(lambda: target.fill(2), float(size), note=f"{size} bytes.")


# The device's memory ------------------------------------------------------------------------------


@bandwidth("copy", CUPY, DEVICE, name="copy_bandwidth")
def device_copy_bandwidth(bench: Bench) -> Work:
    """Copy one large buffer of the device to another with cudaMemcpyAsync; read and write counted."""
    source, target = bench.large
    size = source.nbytes
    call = functools.partial(target.data.copy_from_device_async, source.data, size)
    return Work(call, 2.0 * size, note=_beside_l2(bench, size))


@bandwidth("copy", CUPY, DEVICE, name="transpose_bandwidth")
def device_transpose_bandwidth(bench: Bench) -> Work:
    """Copy a matrix of float32 in C order to a new one in Fortran order; read and write counted."""
    rows = min(bench.bytes_for(256 * MIB), bench.large[0].nbytes) // (4 * COLUMNS)
    source = bench.large[0].view("float32")[: rows * COLUMNS].reshape(-1, COLUMNS)
    ordered = bench.xp.asfortranarray
    return Work(lambda: ordered(source), 2.0 * source.nbytes, note=f"{len(source)} x {COLUMNS} float32.")


@bandwidth("write", CUPY, DEVICE)
def memset_bandwidth(bench: Bench) -> Work:
    """Set a large buffer of the device with cudaMemsetAsync."""
    target = bench.large[1]
    size = target.nbytes
    return Work(lambda: target.data.memset_async(1, size), float(size), note=_beside_l2(bench, size))


@bandwidth("write", CUPY, DEVICE, name="write_bandwidth")
def device_write_bandwidth(bench: Bench) -> Work:
    """Fill a large buffer of the device with an own kernel, 16 bytes a thread and step."""
    target = bench.large[1]
    kernel, arguments = bench.kernels.get_function("fill16"), _fill16_arguments(target)
    kernel(*bench.grid, arguments)
    words = target.view("uint32")
    if not bool((words == FILLED).all()):
        raise WrongResultError("kernel fill16 did not fill its buffer")
    return Work(
        lambda: kernel(*bench.grid, arguments), float(target.nbytes), note=_beside_l2(bench, target.nbytes)
    )


@bandwidth("read", CUPY, DEVICE, name="read_bandwidth")
def device_read_bandwidth(bench: Bench) -> Work:
    """Sum a large buffer of the device with an own kernel, 16 bytes a load, past the L1."""
    source = bench.large[0]
    return _read16(bench, source, 1, _beside_l2(bench, source.nbytes))


@bandwidth("read", CUPY, DEVICE)
def l2_read_bandwidth(bench: Bench) -> Work:
    """Sum a table of half the device's L2 again and again inside one launch, 16 bytes a load, past the L1."""
    return _read_l2(bench, 8)


@bandwidth("read", CUPY, DEVICE)
def l2_read_bandwidth_whole(bench: Bench) -> Work:
    """Do the same with a table of fifteen sixteenths of the L2."""
    return _read_l2(bench, 15)


def _read_l2(bench: Bench, sixteenths: int) -> Work:
    l2_bytes = bench.backend.identity()["l2_bytes"]
    size = min(l2_bytes * sixteenths // 16, bench.large[0].nbytes) >> 12 << 12
    if not size:
        raise UnavailableError("the device reports no L2")
    repeats = max(1, math.ceil(L2_READ_BYTES * bench.settings.scale / size))
    note = f"{size} bytes of {l2_bytes} of L2, {repeats} times."
    return _read16(bench, bench.large[0][:size], repeats, note)


def _beside_l2(bench: Bench, size: int) -> str:
    return f"{size} bytes, {size / max(bench.backend.identity()['l2_bytes'], 1):.1f} times the L2."


def _fill16_arguments(target: Any) -> tuple[Any, ...]:
    import numpy as np

    return target, np.int64(target.nbytes // 16), np.uint32(FILLED)


def _read16(bench: Bench, source: Any, repeats: int, note: str) -> Work:
    """Return the work of reading a byte buffer, after a check that all of it is read, as often as asked."""
    import numpy as np

    kernel = bench.kernels.get_function("read16")
    total = bench.xp.zeros(1, "uint32")
    arguments = (source, np.int64(source.nbytes // 16), np.int32(repeats), total)
    kernel(*bench.grid, arguments)
    expected = int(source.view("uint32").sum(dtype="uint64")) * repeats % (1 << 32)
    if int(total[0]) != expected:
        raise WrongResultError(f"kernel read16 found the sum {int(total[0])} where {expected} is right")
    return Work(lambda: kernel(*bench.grid, arguments), float(source.nbytes) * repeats, note=note)


# Between host and device --------------------------------------------------------------------------


@bandwidth("transfer", CUPY, clocks.THROUGHPUT)
def host_to_device_pageable(bench: Bench) -> Work:
    """Copy a NumPy array to the device."""
    return _transfer(bench, pinned=False, to_device=True)


@bandwidth("transfer", CUPY, clocks.THROUGHPUT)
def host_to_device_pinned(bench: Bench) -> Work:
    """Copy page-locked memory to the device."""
    return _transfer(bench, pinned=True, to_device=True)


@bandwidth("transfer", CUPY, clocks.THROUGHPUT)
def device_to_host_pageable(bench: Bench) -> Work:
    """Copy from the device to a NumPy array that has been touched."""
    return _transfer(bench, pinned=False, to_device=False)


@bandwidth("transfer", CUPY, clocks.THROUGHPUT)
def device_to_host_pinned(bench: Bench) -> Work:
    """Copy from the device to page-locked memory."""
    return _transfer(bench, pinned=True, to_device=False)


def _transfer(bench: Bench, *, pinned: bool, to_device: bool) -> Work:
    """Return the work of one cudaMemcpyAsync; with pageable memory it returns when the bytes are staged."""
    import numpy as np
    from cupyx import empty_pinned

    size = min(bench.bytes_for(64 * MIB), bench.large[0].nbytes)
    host = empty_pinned(size, np.uint8) if pinned else np.empty(size, np.uint8)
    host.fill(1)
    runtime, stream = bench.xp.cuda.runtime, bench.xp.cuda.get_current_stream().ptr
    device = bench.large[0][:size]
    if to_device:
        ends = device.data.ptr, host.ctypes.data, size, runtime.memcpyHostToDevice, stream
    else:
        ends = host.ctypes.data, device.data.ptr, size, runtime.memcpyDeviceToHost, stream

    def copy(keep: tuple[Any, Any] = (device, host)) -> None:  # the pointers live as long as the call does
        runtime.memcpyAsync(*ends)

    return Work(copy, float(size), note=f"{size} bytes.")


# Dense products -----------------------------------------------------------------------------------


@limit("product", unit=FLOP_PER_SECOND, backends=NUMPY, clocks=WAITING)
def product_rate(bench: Bench) -> Work:
    """Multiply two square float32 matrices with one BLAS thread."""
    return _product(bench, 1024, threads=1)


@limit("product", unit=FLOP_PER_SECOND, backends=NUMPY, clocks=WAITING)
def product_rate_all(bench: Bench) -> Work:
    """Multiply two square float32 matrices with one BLAS thread a core."""
    return _product(bench, round(1024 * bench.cores ** (1 / 3) / 256) * 256, threads=0)


@limit("product", unit=FLOP_PER_SECOND, backends=CUPY, clocks=(DEVICE,), name="product_rate")
def device_product_rate(bench: Bench) -> Work:
    """Multiply two square float32 matrices in full float32."""
    if bench.backend.identity()["tf32"]:
        raise UnavailableError("CUPY_TF32=1 rounds float32 products to TF32; unset it")
    return _product(bench, 4096, threads=1)


def _product(bench: Bench, wanted: int, threads: int) -> Work:
    """Return the work of one product; its operands vary, because a product of constants draws less power."""
    xp = bench.xp
    side = math.isqrt(bench.bytes_for(4 * wanted**2, arrays=4) // 4)
    values = (xp.arange(side * side, dtype="int64") * 7919 % 997).astype("float32") / 997 - 0.5
    A = values.reshape(side, side)
    B, C = A[::-1].copy(), xp.empty_like(A)
    return Work(lambda: xp.dot(A, B, out=C), 2.0 * side**3, threads=threads, note=f"{side} x {side}.")
