"""The time that unit costs predict, and the launches that structure predicts. Nothing is fitted to a time.

Each implementation is declared below as what its code does: how many calls of which kind, how many bytes.
The costs of a call of each kind and of a byte are the limits of the machine (``limits``), measured on arrays
too small or too large to matter; two costs of an element run the kernels of variants on other shapes. Where
a prediction fails, a cost is missing from the list, and the table says by how much.

The rule: a call is cut into phases where the host waits for the device. In a phase the host queues work and
the device does it at the same time, so the slower of the two wins; phases follow each other.

    time = sum over phases of max(host, device)
    host = sum of (calls of a kind x cost of the kind) + bytes / bandwidth of the host
    device = bytes / bandwidth of the device + elements x cost of an element

NumPy has no device: all it does is the host's. Its bytes move at the rate of the nearest memory that holds
them.

A limit may be missing, from an older record or on a machine that cannot measure it. Then a coarser one of the
same kind takes its place, and the prediction names what it did without.
"""

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from onehot import implementations
from onehot.errors import StudyError
from onehot.implementations.kernels import GRAPH_LANES
from onehot.variant import ITEM_BYTES, PUBLISHED, Variant

Amounts = dict[str, float]
"""Limits by name, and how much of each: calls, items, bytes or operations."""

ONCE_A_CALL = "python_call"
"""What every limit of a whole call holds on top of its own cost: the loop and the function that time it."""

MAPPED_BYTES = 32 << 20
"""The C library maps a larger array anew for each call (M_MMAP_THRESHOLD's ceiling), and its pages fault; a
smaller one comes from memory that was touched before."""

LINE_BYTES = 64
"""A line of the host's caches: what one element at a stride brings along."""

SECTOR_BYTES = 32
"""The least that the GPU's L2 and memory move (CUDA C++ Best Practices Guide, coalesced access)."""

ROW_BYTES = 1024
"""Bytes of a row in the limits ``row_..._item``."""

REDUCTION_THREADS, REDUCTION_STRIDE = 512, 32
"""Threads of a block of CuPy's own reductions, and the most neighbouring columns that one block reduces.

See ``_get_block_specs`` in cupy/_core/_reduction.pyx.
"""

TAKE_DIVISIONS = 3
"""Integer divisions an element of CuPy's take.

One finds its row and column (CIndexer in carray.cuh), one wraps the index, one finds the column again
(``_take_kernel_core`` in _routines_indexing.pyx).
"""

PRODUCT_TILE = (128, 64)
"""Rows and columns of the result that a block of cuBLAS's float32 product makes (from its kernel's name)."""


class MissingLimitError(StudyError):
    """A limit that a prediction needs was not measured."""


@dataclass(frozen=True)
class Cost:
    """One limit: seconds a call or item, or an amount a second."""

    value: float
    unit: str


@dataclass(frozen=True)
class Machine:
    """What a prediction knows of a machine.

    Attributes
    ----------
    costs : by backend and name of the limit.
    l2_bytes, l3_bytes : of the host's caches; the last is shared, so half of it counts.
    device_l2_bytes : of the GPU.
    cores : that a process of the host may use.
    index_sets : minibatches that rotate: what they touch together decides which memory serves them.
    missed : limits that were asked for and never measured.
    """

    costs: Mapping[tuple[str, str], Cost]
    l2_bytes: int = 1 << 20
    l3_bytes: int = 32 << 20
    device_l2_bytes: int = 0
    cores: int = 1
    index_sets: int = 1
    missed: set[str] = field(default_factory=set, init=False, compare=False, repr=False)

    def has(self, backend: str, name: str) -> bool:
        """Return whether a limit was measured; one that was not is noted in ``missed``."""
        found = (backend, name) in self.costs
        if not found:
            self.missed.add(name)
        return found

    def seconds(self, backend: str, amounts: Mapping[str, float]) -> float:
        """Return the seconds that some amounts take one after the other.

        Raises
        ------
        MissingLimitError
            Names the limit.
        """
        return sum(self._one(backend, name, amount) for name, amount in amounts.items() if amount)

    def _one(self, backend: str, name: str, amount: float) -> float:
        cost = self.costs.get((backend, name))
        if cost is None:
            raise MissingLimitError(f"limit {name} of {backend} was not measured")
        if cost.unit != "seconds":
            return amount / cost.value
        return amount * max(cost.value - self._timing(backend, name), 0.0)

    def _timing(self, backend: str, name: str) -> float:
        """Return the cost of timing itself: it cancels in a limit that is a difference of two calls."""
        if name == ONCE_A_CALL or name.endswith(("_item", "_element")):
            return 0.0
        known = self.costs.get((backend, ONCE_A_CALL))
        return known.value if known else 0.0


@dataclass(frozen=True)
class Phase:
    """Work between two points where the host waits for the device.

    Attributes
    ----------
    host, device : what each of the two does in the meantime.
    times : how often the phase is repeated.
    """

    host: Amounts
    device: Amounts = field(default_factory=dict)
    times: float = 1.0


Structure = Callable[[Variant, Machine], list[Phase]]

STRUCTURES: dict[str, Structure] = {}
"""What each implementation does, by its name."""


WEAKNESSES: dict[str, str] = {}
"""What a structure is known to leave out, by implementation: said beside a prediction that fails."""


def structure(*names: str, weakness: str = "") -> Callable[[Structure], Structure]:
    """Declare the function below as what implementations do, and what it is known to leave out."""

    def register(function: Structure) -> Structure:
        for name in names:
            STRUCTURES[name] = function
            if weakness:
                WEAKNESSES[name] = weakness
        return function

    return register


@dataclass(frozen=True)
class Prediction:
    """Seconds of one call, and which side they are spent on.

    Attributes
    ----------
    seconds : of the whole.
    host_seconds, device_seconds : of each side, were the other infinitely fast.
    bytes_seconds : of what moves bytes, on the side that does it.
    without : limits that were not measured and that a coarser one stands in for.
    largest : the limit that the most seconds are spent on.
    """

    seconds: float
    host_seconds: float
    device_seconds: float
    bytes_seconds: float
    without: tuple[str, ...] = ()
    largest: str = ""


def predict(variant: Variant, machine: Machine) -> Prediction:
    """Return the seconds that the limits of a machine predict for one call of a variant, calls back to back.

    Raises
    ------
    MissingLimitError
        A limit that it needs was not measured, or the implementation declares no structure.
    """
    machine = dataclasses.replace(machine)  # one that has missed nothing yet
    phases = phases_of(variant, machine)
    backend = variant.backend
    total = host = device = moved = 0.0
    spent: dict[str, float] = defaultdict(float)
    for phase in phases:
        on_host = machine.seconds(backend, phase.host)
        on_device = machine.seconds(backend, phase.device)
        total += phase.times * max(on_host, on_device)
        host += phase.times * on_host
        device += phase.times * on_device
        for name, amount in (phase.host if on_host >= on_device else phase.device).items():
            spent[name] += phase.times * machine.seconds(backend, {name: amount})
        moved += phase.times * sum(
            machine.seconds(backend, {name: amount})
            for name, amount in (*phase.host.items(), *phase.device.items())
            if "bandwidth" in name or name.startswith(("host_to", "device_to"))
        )
    largest = max(spent, key=lambda name: spent[name], default="")
    return Prediction(total, host, device, moved, tuple(sorted(machine.missed)), largest)


def phases_of(variant: Variant, machine: Machine) -> list[Phase]:
    """Return what a variant does."""
    declared = STRUCTURES.get(variant.implementation)
    if declared is None:
        raise MissingLimitError(
            f"implementation {variant.implementation!r} declares no structure in model.py"
        )
    return declared(variant, machine)


# What reaches the device --------------------------------------------------------------------------


@dataclass(frozen=True)
class Reached:
    """What calls of CuPy queue for the device: kernels, copies of each direction, and waits of the host."""

    kernels: int = 0
    to_host: int = 0
    to_device: int = 0
    waits: int = 0


CUPY_CALLS = {
    "any_bool": Reached(kernels=2, to_host=1, waits=1),  # CUB reduces in two passes; one element needs one
    "any_array": Reached(kernels=2),
    "wait_item": Reached(to_host=1, waits=1),
    "argmax_strided": Reached(kernels=1),
    "argmax_contiguous": Reached(kernels=2),
    "argmax_axis": Reached(kernels=1),
    "index_0d": Reached(kernels=1),
    "index_int": Reached(),
    "iterate_item": Reached(),
    "fancy_index_few": Reached(kernels=1),
    "take_few": Reached(kernels=1),
    "take_out_few": Reached(kernels=1),
    "vstack_two": Reached(kernels=2),
    "stack_two": Reached(kernels=1, to_device=1),
    "stack_item": Reached(),
    "assign_row": Reached(kernels=1),
    "to_list": Reached(to_host=1, waits=1),
    "to_list_item": Reached(),
    "matmul_small": Reached(kernels=1),
    "elementwise": Reached(kernels=1),
    "launch": Reached(kernels=1),
    "allocate_small": Reached(),
    "python_call": Reached(),
    "asarray_few": Reached(to_device=1),
}
"""What one call of each kind reaches the device with: the ledger of a variant is checked against these."""


def reached(variant: Variant, machine: Machine) -> Reached | None:
    """Return what a variant on CuPy should reach the device with; None where a kind of call is not known.

    The one wait that a ledger has for itself is in ``waits``.
    """
    total: Counter[str] = Counter()
    for phase in phases_of(variant, machine):
        for name, amount in phase.host.items():
            if "bandwidth" in name or name.startswith(("host_to", "device_to")):
                continue
            if name not in CUPY_CALLS:
                return None
            for what, number in dataclasses.asdict(CUPY_CALLS[name]).items():
                total[what] += round(number * amount * phase.times)
    total["waits"] += 1
    return Reached(**total)


# Bytes --------------------------------------------------------------------------------------------


def _row(v: Variant) -> int:
    return v.embedding * ITEM_BYTES[v.dtype]


def _add(*parts: Mapping[str, float]) -> Amounts:
    """Return the sum of amounts, limit by limit."""
    total: dict[str, float] = defaultdict(float)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(total)


def nearest_memory(machine: Machine, working_bytes: float) -> str:
    """Return which memory holds what a loop touches again and again: ``cached``, ``last`` or ``memory``."""
    if working_bytes <= machine.l2_bytes:
        return "cached"
    return "last" if working_bytes <= machine.l3_bytes / 2 else "memory"


def device_read_limit(machine: Machine, working_bytes: float) -> str:
    """Return the limit at which the GPU reads again and again what is of some size.

    Its L2's rate was measured with a table of half its size and with one that nearly fills it: what is larger
    than the first is taken as if it filled it.
    """
    if working_bytes > machine.device_l2_bytes:
        return "read_bandwidth"
    if working_bytes > machine.device_l2_bytes / 2 and machine.has("cupy", "l2_read_bandwidth_whole"):
        return "l2_read_bandwidth_whole"
    return "l2_read_bandwidth"


def _copy_limit(v: Variant, machine: Machine, working_bytes: float) -> str:
    """Return the limit at which bytes are copied among arrays of some size."""
    near = nearest_memory(machine, working_bytes)
    if v.backend != "numpy" or near == "memory":
        return "copy_bandwidth"
    if near == "last" and machine.has("numpy", "copy_bandwidth_last"):
        return "copy_bandwidth_last"
    return "copy_bandwidth_cached" if near == "cached" else "copy_bandwidth"


def _read(v: Variant, machine: Machine, amount: float, working_bytes: float) -> Amounts:
    """Return the cost of reading bytes out of an array, or out of arrays in turn, of some size."""
    if v.backend != "numpy":
        return {device_read_limit(machine, working_bytes): amount}
    if nearest_memory(machine, working_bytes) == "memory":
        return {"read_bandwidth": amount}
    return {_copy_limit(v, machine, working_bytes): amount}


def _write(v: Variant, machine: Machine, amount: float, *, fresh: bool = True) -> Amounts:
    """Return the cost of writing a result, into new memory or into an array that exists."""
    if v.backend != "numpy":
        return {"write_bandwidth": amount}
    if fresh and amount > MAPPED_BYTES:
        return {"first_touch_bandwidth": amount}
    if nearest_memory(machine, 2 * amount) == "memory":
        return {"write_bandwidth": amount}
    return {_copy_limit(v, machine, 2 * amount): amount}


def _touched(v: Variant, machine: Machine) -> float:
    """Return the bytes of W0 that the rotating minibatches read, no more rows than there are.

    In the published geometry the rows are positions of the batch, most of them among its first.
    """
    rows = v.embedding if v.geometry == PUBLISHED else v.minibatch
    return min(v.vocabulary, rows * machine.index_sets) * _row(v)


def _slower(v: Variant, machine: Machine, *options: Amounts) -> Amounts:
    """Return the amounts that take longest, of work that goes on at the same time."""
    return max(options, key=lambda one: machine.seconds(v.backend, one))


def _gather(v: Variant, machine: Machine, *, fresh: bool = True) -> Amounts:
    """Return the cost of a gather beyond its call: on the device that of CuPy's take kernel."""
    if v.backend != "numpy":
        return _taken(v, machine, "gather_element", v.result_rows * v.embedding)
    limit = f"row_{nearest_memory(machine, _touched(v, machine))}_item"
    write = _write(v, machine, v.result_bytes, fresh=fresh)
    if not machine.has("numpy", limit):
        return _add(_read(v, machine, v.result_bytes, _touched(v, machine)), write)
    # stores leave a core while it waits for the next row, but a new page stops it
    rows = {limit: v.result_bytes / ROW_BYTES}
    return _add(rows, write) if "first_touch_bandwidth" in write else _slower(v, machine, rows, write)


def _taken(v: Variant, machine: Machine, limit: str, elements: int) -> Amounts:
    """Return the device's cost of CuPy's take, one element a thread.

    The limit of an element has its bytes in it while the table lies in the L2. Without it, a thread's
    divisions come before its load and its store, so they add.
    """
    moved = _bytes_alone(v, machine)
    if machine.has("cupy", limit):
        return _slower(v, machine, {limit: float(elements)}, moved)
    return _add(_divided(machine, TAKE_DIVISIONS * elements), moved)


def _divided(machine: Machine, divisions: float) -> Amounts:
    """Return the device's cost of integer divisions, nothing where none was measured."""
    return {"remainder_element": float(divisions)} if machine.has("cupy", "remainder_element") else {}


def _bytes_alone(v: Variant, machine: Machine) -> Amounts:
    """Return the bytes of a gather whose kernel does no arithmetic worth counting."""
    return _add(_read(v, machine, v.result_bytes, _touched(v, machine)), _write(v, machine, v.result_bytes))


def _grown(v: Variant, machine: Machine, rows: int) -> Amounts:
    """Return the cost of copying h into a larger h at each step: 2 + 3 + ... rows, read and written."""
    row = 2.0 * _row(v)
    if v.backend != "numpy":
        return {"copy_bandwidth": row * (rows * (rows + 1) / 2 - 1)}
    found: dict[str, float] = defaultdict(float)
    for low, high in _levels(machine, rows, row):
        squares = high * (high + 1) - low * (low + 1)
        found[_copy_limit(v, machine, row * high)] += row * squares / 2
    return dict(found)


def _levels(machine: Machine, rows: int, row: float) -> Iterable[tuple[int, int]]:
    """Cut 1..rows where the two arrays of a copy outgrow a cache."""
    edges = [min(rows, int(size / row)) for size in (machine.l2_bytes, machine.l3_bytes / 2)]
    cuts = sorted({0, *edges, rows})
    return itertools.pairwise(cuts)


def _one_hot_bytes(v: Variant) -> float:
    item = 8 if v.geometry == PUBLISHED else ITEM_BYTES[v.dtype]
    return float(v.minibatch * v.one_hot_columns * item)


def _is_strided(v: Variant) -> bool:
    """Return whether ``argmax`` runs across memory: along columns in C order, along rows in Fortran order."""
    return (v.layout == "C") == (v.geometry == PUBLISHED)


def _reduced(v: Variant) -> tuple[int, int]:
    """Return how many elements one ``argmax`` looks at, and how many of them the whole of X takes."""
    return (v.minibatch, v.embedding) if v.geometry == PUBLISHED else (v.vocabulary, v.minibatch)


def _decode_call(v: Variant) -> str:
    """Return the kind of call that one ``argmax`` over the whole of X is.

    CuPy hands an axis that is contiguous to CUB, and any other to a reduction kernel of its own.
    """
    return "argmax_strided" if v.backend != "numpy" and _is_strided(v) else "argmax_axis"


def _decode(v: Variant, machine: Machine) -> Amounts:
    """Return the cost of the elements of one ``argmax`` over the whole of X, along its rows or columns."""
    size = _one_hot_bytes(v)
    length, columns = _reduced(v)
    read = _read(v, machine, size, size * machine.index_sets)
    if v.backend != "numpy":
        rows_or_columns = _decoded_across if _is_strided(v) else _decoded_along
        return rows_or_columns(v, machine, length, columns, read)
    if not _is_strided(v):
        return _slower(v, machine, read, {"argmax_contiguous_element": size / 8})
    # NumPy copies X to make the axis contiguous: the copy of an element is in the limit, its page is not
    pages = {"first_touch_bandwidth": size} if size > MAPPED_BYTES else {}
    return _add(_slower(v, machine, read, _strided(machine, length, float(length) * columns)), pages)


def _decoded_along(v: Variant, machine: Machine, length: int, rows: int, read: Amounts) -> Amounts:
    """Return the device's cost of an ``argmax`` of each of some rows: CUB, a block of threads a row.

    A block loads a tile, takes a remainder an element to number it, and reduces the tile behind barriers
    before it loads the next (``_create_cub_reduction_function`` in cupy/_core/_cub_reduction.pyx): the time
    is more than its bytes. Few rows leave most multiprocessors idle: then one row's time is the whole.
    """
    known = machine.has("cupy", "argmax_contiguous_element")
    each = {"argmax_contiguous_element": float(length) * rows}
    options = [read, each if known else _add(read, _divided(machine, length * rows))]
    if machine.has("cupy", "argmax_block_element"):
        options.append({"argmax_block_element": float(length)})
    return _slower(v, machine, *options)


def _decoded_across(v: Variant, machine: Machine, length: int, columns: int, read: Amounts) -> Amounts:
    """Return the device's cost of an ``argmax`` of each of some columns: a kernel of CuPy's own.

    One block reduces up to 32 neighbouring columns, so 16 of its 512 threads walk down a column: few loads
    are on their way at a time, and the steps of one thread, each as long as a load, are the time whatever
    the bandwidth. The limit of a strided element has all 512 threads on one column.
    """
    wanted = max(min(columns, REDUCTION_STRIDE), REDUCTION_THREADS // max(length, 1))
    stride = 1 << (wanted // 2).bit_length()  # down to a power of 2
    steps = {"argmax_strided_element": float(length) * stride}
    if machine.has("cupy", "argmax_across_item"):
        steps = {"argmax_across_item": length * stride / REDUCTION_STRIDE}
    return _slower(v, machine, read, steps)


def _strided(machine: Machine, length: int, elements: float) -> Amounts:
    """Return NumPy's cost of elements at a stride, in columns of some length.

    Neighbouring columns share their lines: where a column's lines outgrow a core's cache, each is fetched
    anew.
    """
    far = length * LINE_BYTES > machine.l2_bytes and machine.has("numpy", "argmax_far_element")
    return {"argmax_far_element" if far else "argmax_strided_element": elements}


def _looked_at(v: Variant, machine: Machine) -> tuple[Amounts, Amounts]:
    """Return host and device cost of one ``argmax`` a step, of all steps: over m entries, or over V."""
    published = v.geometry == PUBLISHED
    steps, length = v.result_rows, (v.minibatch if published else v.vocabulary)
    strided = _is_strided(v)
    call = "argmax_strided" if strided else "argmax_contiguous"
    if v.backend != "numpy":
        size = _one_hot_bytes(v)
        slow = {"argmax_strided_element": float(steps * length)}
        return {call: steps}, slow if strided else _read(v, machine, size, size * machine.index_sets)
    item = 8 if published else ITEM_BYTES[v.dtype]
    contiguous = {"argmax_contiguous_element": steps * (length - 1.0) * item / 8}
    each = _strided(machine, length, steps * (length - 1.0)) if strided else contiguous
    size = _one_hot_bytes(v)
    far = _read(v, machine, size, size * machine.index_sets)
    return _add({call: steps}, _slower(v, machine, far, each)), {}


def _sides(v: Variant, moved: Amounts) -> tuple[Amounts, Amounts]:
    """Put bytes on the side that moves them."""
    return (moved, {}) if v.backend == "numpy" else ({}, moved)


def _phase(v: Variant, calls: Mapping[str, float], *moved: Amounts) -> Phase:
    """Return one phase of some calls and some bytes."""
    host, device = _sides(v, _add(*moved))
    return Phase(_add(calls, host), device)


# Loops --------------------------------------------------------------------------------------------


IN_A_LOOP = (
    "each call costs more among calls of other kinds, and behind a wait, than again and again by itself, "
    "as its limit is measured"
)


@structure("published_loop", "loop_vstack", weakness=IN_A_LOOP)
def _the_loop(v: Variant, machine: Machine) -> list[Phase]:
    """Iterate, ask any of h, decode, look up, copy h: ``bool(any())`` ends a phase at each step."""
    steps = v.result_rows
    asked: Amounts = {"any_bool": steps}
    if v.backend != "numpy" and machine.has("cupy", "wait_item"):  # a wait amid queued work, not an idle one
        asked = {"any_array": steps, "wait_item": steps}
    seen = steps * (steps - 1) / 2 * v.embedding
    if v.backend == "numpy":
        asked["any_element"] = max(seen - 300.0 * steps, 0.0)
    looked, scanned = _looked_at(v, machine)
    grown = _grown(v, machine, steps)
    read = {} if v.backend == "numpy" else {"read_bandwidth": seen * ITEM_BYTES[v.dtype]}
    host, device = _sides(v, grown)
    whole = _add({"iterate_item": steps, "index_0d": steps, "vstack_two": steps - 1}, asked, looked, host)
    return _in_steps(whole, _add(scanned, device, read), steps)


def _in_steps(host: Amounts, device: Amounts, steps: int) -> list[Phase]:
    """Cut work evenly into steps that the host waits after."""
    share = 1.0 / max(steps, 1)
    return [
        Phase(
            {name: amount * share for name, amount in host.items()},
            {name: amount * share for name, amount in device.items()},
            steps,
        )
    ]


@structure("rung_no_any", "corrected_no_any", weakness=IN_A_LOOP)
def _without_any(v: Variant, machine: Machine) -> list[Phase]:
    steps = v.result_rows
    looked, scanned = _looked_at(v, machine)
    host, device = _sides(v, _grown(v, machine, steps))
    views = {"index_int": steps} if v.implementation.startswith("corrected") else {}
    calls = {"iterate_item": steps, "index_0d": steps, "vstack_two": steps - 1}
    return [Phase(_add(calls, views, looked, host), _add(scanned, device))]


@structure("rung_argmax_once", "corrected_argmax_once", weakness=IN_A_LOOP)
def _argmax_once(v: Variant, machine: Machine) -> list[Phase]:
    steps = v.result_rows
    views = {"index_int": steps} if v.implementation.startswith("corrected") else {}
    calls = {_decode_call(v): 1, "iterate_item": steps, "index_0d": steps, "vstack_two": steps - 1}
    return [_phase(v, _add(calls, views), _decode(v, machine), _grown(v, machine, steps))]


def _decoded_to_host(v: Variant, machine: Machine) -> Phase:
    """Argmax of the whole, and its indices as Python ints."""
    calls = {_decode_call(v): 1, "to_list": 1, "to_list_item": max(v.result_rows - 16, 0)}
    return _phase(v, calls, _decode(v, machine))


@structure("rung_host_indices", "corrected_host_indices", weakness=IN_A_LOOP)
def _host_indices(v: Variant, machine: Machine) -> list[Phase]:
    steps = v.result_rows
    views = 2 if v.implementation.startswith("corrected") else 1
    calls = {"index_int": views * steps, "vstack_two": steps - 1}
    return [_decoded_to_host(v, machine), _phase(v, calls, _grown(v, machine, steps))]


def _listed(v: Variant, machine: Machine) -> Phase:
    """Return a view a row and one stack of them all; the copy of a small row is in an item's cost."""
    rows = v.result_rows
    calls = {"index_int": rows, "stack_two": 1, "stack_item": max(rows - 2, 0)}
    moved = _bytes_alone(v, machine) if v.backend != "numpy" else _beyond_cache(v, machine)
    return _phase(v, calls, moved)


def _beyond_cache(v: Variant, machine: Machine) -> Amounts:
    """Return the cost of rows that the small limits found in a cache and a variant does not."""
    read = _read(v, machine, v.result_bytes, _touched(v, machine))
    return {} if nearest_memory(machine, _touched(v, machine)) == "cached" else read


@structure("rung_list_stack", "corrected_list_stack")
def _list_stack(v: Variant, machine: Machine) -> list[Phase]:
    return [_decoded_to_host(v, machine), _listed(v, machine)]


@structure("loop_list_stack")
def _list_of_indices(v: Variant, machine: Machine) -> list[Phase]:
    calls = {"to_list": 1, "to_list_item": max(v.minibatch - 16, 0)}
    return [Phase(_add(calls)), _listed(v, machine)]


def _assigned(v: Variant, machine: Machine) -> Phase:
    """Return each row looked up and written to its place by a call of its own."""
    moved = _bytes_alone(v, machine) if v.backend != "numpy" else _beyond_cache(v, machine)
    return _phase(v, {"allocate_small": 1, "assign_row": v.result_rows}, moved)


@structure("rung_preallocated", "corrected_preallocated")
def _preallocated(v: Variant, machine: Machine) -> list[Phase]:
    return [_decoded_to_host(v, machine), _assigned(v, machine)]


@structure("loop_preallocated")
def _preallocated_of_indices(v: Variant, machine: Machine) -> list[Phase]:
    calls = {"to_list": 1, "to_list_item": max(v.minibatch - 16, 0)}
    return [Phase(_add(calls)), _assigned(v, machine)]


# Gathers and products -----------------------------------------------------------------------------


@structure("published_gather", "argmax_take")
def _decode_and_gather(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {_decode_call(v): 1, "fancy_index_few": 1}, _decode(v, machine), _gather(v, machine))]


@structure("rung_gather_indices", "fancy_index")
def _fancy_index(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"fancy_index_few": 1}, _gather(v, machine))]


@structure("rung_take", "take")
def _take(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"take_few": 1}, _gather(v, machine))]


@structure("rung_take_out", "take_out")
def _take_out(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"take_out_few": 1}, _gather(v, machine, fresh=False))]


@structure("take_wide")
def _take_wide(v: Variant, machine: Machine) -> list[Phase]:
    """Take elements of 16 bytes, a quarter of the elements, and view them back."""
    wide = _taken(v, machine, "gather_wide_element", v.result_bytes // 16)
    return [_phase(v, {"take_few": 1, "index_int": 1}, wide)]


@structure("elementwise_kernel")
def _elementwise_kernel(v: Variant, machine: Machine) -> list[Phase]:
    """Find row and column with one division, then load and store."""
    found = _divided(machine, v.result_rows * v.embedding)
    return [_phase(v, {"elementwise": 1, "index_int": 1}, found, _bytes_alone(v, machine))]


@structure("raw_kernel")
def _raw_kernel(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"launch": 1, "allocate_small": 1}, _bytes_alone(v, machine))]


@structure("raw_kernel_out")
def _raw_kernel_out(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"launch": 1}, _bytes_alone(v, machine))]


@structure("cuda_graph")
def _cuda_graph(v: Variant, machine: Machine) -> list[Phase]:
    """Share one launch and one copy of indices among the minibatches of a graph; of one, as timed.

    A kernel of a graph's lane begins when the one before has ended: what that takes comes on top of its
    bytes, and is shared by the lanes.
    """
    node = {"graph_node_item": 1.0 / GRAPH_LANES} if machine.has("cupy", "graph_node_item") else {}
    share = 1.0 / implementations.get(v.implementation, v.backend).group(v)
    indices = {"copy_bandwidth": 2.0 * v.minibatch * ITEM_BYTES[v.index_dtype]}
    return [_phase(v, {"launch": share}, _bytes_alone(v, machine), indices, node)]


@structure(
    "dense_dot", weakness="the product is far from square, and the limit of its rate is of a square one"
)
def _dense_dot(v: Variant, machine: Machine) -> list[Phase]:
    """2 m V E operations; NumPy's BLAS packs X and W0 first, cuBLAS computes whole tiles of the result."""
    size = _one_hot_bytes(v) + v.table_bytes
    wide = ITEM_BYTES[v.dtype] / 4
    if v.backend == "numpy":
        many = "" if v.threads == 1 else "_all"
        operations = 2.0 * v.minibatch * v.vocabulary * v.embedding * wide
        # as GotoBLAS does: both operands are copied to the order they are read in (10.1145/1356052.1356053)
        packed = {f"copy_bandwidth{many}": 2.0 * size}
        return [_phase(v, {"matmul_small": 1}, {f"product_rate{many}": operations}, packed)]
    rows, columns = -(-v.minibatch // PRODUCT_TILE[0]), -(-v.embedding // PRODUCT_TILE[1])
    computed = rows * PRODUCT_TILE[0] * columns * PRODUCT_TILE[1]
    product = {"product_rate": 2.0 * computed * v.vocabulary * wide}
    return [_phase(v, {"matmul_small": 1}, _slower(v, machine, product, _read(v, machine, size, size)))]


@structure(
    "sparse_dot", weakness="cuSPARSE's and SciPy's kernels are counted by the bytes that they have to move"
)
def _sparse_dot(v: Variant, machine: Machine) -> list[Phase]:
    """Add each row of W0 times one to a row of zeros."""
    if v.backend != "numpy":
        return [_phase(v, {"csr_small": 1}, _multiplied_on_device(v, machine))]
    near = 2 * v.result_bytes
    # y += a x reads and writes y; y is zeros, which were written before unless its pages are new
    added = {_copy_limit(v, machine, near): 2.0 * v.result_bytes}
    return [_phase(v, {"csr_small": 1}, _bytes_alone(v, machine), added)]


def _multiplied_on_device(v: Variant, machine: Machine) -> Amounts:
    """Return the device's cost of CuPy's product: W0 to Fortran order, each time, then cuSPARSE's kernels.

    In Fortran order the neighbours in a row of W0 lie a column apart: each element brings a sector along. The
    result is scaled by zero first, so it is written twice.
    """
    limit = "transpose_bandwidth" if machine.has("cupy", "transpose_bandwidth") else "copy_bandwidth"
    turned = {limit: 2.0 * v.table_bytes}
    elements = float(v.result_rows * v.embedding)
    moved = _add(
        _read(v, machine, SECTOR_BYTES * elements, 2 * v.table_bytes),
        _write(v, machine, 2.0 * v.result_bytes),
    )
    if machine.has("cupy", "csr_element"):
        moved = _slower(v, machine, {"csr_element": elements}, moved)
    return _add(turned, moved)


# Transfers ----------------------------------------------------------------------------------------


@structure("pageable_in", "pinned_in")
def _indices_in(v: Variant, machine: Machine) -> list[Phase]:
    """Send m indices, then gather."""
    kind = "pinned" if v.implementation.startswith("pinned") else "pageable"
    sent = {f"host_to_device_{kind}": float(v.minibatch * ITEM_BYTES[v.index_dtype])}
    return [_phase(v, {"fancy_index_few": 1, "asarray_few": 1}, sent, _gather(v, machine))]


@structure("pageable_in_out", "pinned_in_out")
def _indices_in_result_out(v: Variant, machine: Machine) -> list[Phase]:
    """Send m indices, gather, and wait for h."""
    kind = "pinned" if v.implementation.startswith("pinned") else "pageable"
    (first,) = _indices_in(v, machine)
    back = _phase(v, {"to_list": 1}, {f"device_to_host_{kind}": float(v.result_bytes)})
    return [Phase(_add(first.host, back.host), _add(first.device, back.device))]


def bytes_copied(variant: Variant) -> int:
    """Return the bytes that a call writes into results and grown copies, from shapes alone."""
    rows, row = variant.result_rows, _row(variant)
    grows = ("published_loop", "loop_vstack", "no_any", "argmax_once", "host_indices")
    if variant.implementation.endswith(grows):
        return row * (rows * (rows + 1) // 2 - 1)
    return rows * row
