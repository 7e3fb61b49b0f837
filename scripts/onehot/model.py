"""The time that unit costs predict, and the launches that structure predicts. Nothing is fitted to a time.

Each implementation is declared below as what its code does: how many calls of which kind, how many bytes.
The costs of a call of each kind and of a byte are the limits of the machine (``limits``), measured on arrays
too small or too large to matter, never on a variant. Where a prediction fails, a cost is missing from the
list, and the table says by how much.

The rule: a call is cut into phases where the host waits for the device. In a phase the host queues work and
the device does it at the same time, so the slower of the two wins; phases follow each other.

    time = sum over phases of max(host, device)
    host = sum of (calls of a kind x cost of the kind) + bytes / bandwidth of the host
    device = bytes / bandwidth of the device + elements x cost of an element

NumPy has no device: all it does is the host's. Its bytes move at the rate of the nearest memory that holds
them.
"""

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from onehot import implementations
from onehot.errors import StudyError
from onehot.variant import ITEM_BYTES, PUBLISHED, Variant

Amounts = dict[str, float]
"""Limits by name, and how much of each: calls, items, bytes or operations."""

ONCE_A_CALL = "python_call"
"""What every limit of a whole call holds on top of its own cost: the loop and the function that time it."""

MAPPED_BYTES = 32 << 20
"""The C library maps a larger array anew for each call (M_MMAP_THRESHOLD's ceiling), and its pages fault; a
smaller one comes from memory that was touched before."""


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
    index_sets : minibatches that rotate: what they touch together decides which memory serves them.
    """

    costs: Mapping[tuple[str, str], Cost]
    l2_bytes: int = 1 << 20
    l3_bytes: int = 32 << 20
    device_l2_bytes: int = 0
    index_sets: int = 1

    def has(self, backend: str, name: str) -> bool:
        """Return whether a limit was measured."""
        return (backend, name) in self.costs

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


def structure(*names: str) -> Callable[[Structure], Structure]:
    """Declare the function below as what implementations do."""

    def register(function: Structure) -> Structure:
        for name in names:
            STRUCTURES[name] = function
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
    """

    seconds: float
    host_seconds: float
    device_seconds: float
    bytes_seconds: float


def predict(variant: Variant, machine: Machine) -> Prediction:
    """Return the seconds that the limits of a machine predict for one call of a variant, calls back to back.

    Raises
    ------
    MissingLimitError
        A limit that it needs was not measured, or the implementation declares no structure.
    """
    phases = phases_of(variant, machine)
    backend = variant.backend
    total = host = device = moved = 0.0
    for phase in phases:
        on_host = machine.seconds(backend, phase.host)
        on_device = machine.seconds(backend, phase.device)
        total += phase.times * max(on_host, on_device)
        host += phase.times * on_host
        device += phase.times * on_device
        moved += phase.times * sum(
            machine.seconds(backend, {name: amount})
            for name, amount in (*phase.host.items(), *phase.device.items())
            if "bandwidth" in name or name.startswith(("host_to", "device_to"))
        )
    return Prediction(total, host, device, moved)


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


def _near(machine: Machine, working_bytes: float) -> str:
    """Return which memory holds what a loop touches again and again: ``cached``, ``last`` or ``memory``."""
    if working_bytes <= machine.l2_bytes:
        return "cached"
    return "last" if working_bytes <= machine.l3_bytes / 2 else "memory"


def _copy_limit(v: Variant, machine: Machine, working_bytes: float) -> str:
    """Return the limit at which bytes are copied among arrays of some size."""
    near = _near(machine, working_bytes)
    if v.backend != "numpy" or near == "memory":
        return "copy_bandwidth"
    if near == "last" and machine.has("numpy", "copy_bandwidth_last"):
        return "copy_bandwidth_last"
    return "copy_bandwidth_cached" if near == "cached" else "copy_bandwidth"


def _read(v: Variant, machine: Machine, amount: float, working_bytes: float) -> Amounts:
    """Return the cost of reading bytes out of an array, or out of arrays in turn, of some size."""
    if v.backend != "numpy":
        fits = working_bytes <= machine.device_l2_bytes
        return {"l2_read_bandwidth" if fits else "read_bandwidth": amount}
    if _near(machine, working_bytes) == "memory":
        return {"read_bandwidth": amount}
    return {_copy_limit(v, machine, working_bytes): amount}


def _write(v: Variant, machine: Machine, amount: float, *, fresh: bool = True) -> Amounts:
    """Return the cost of writing a result, into new memory or into an array that exists."""
    if v.backend != "numpy":
        return {"write_bandwidth": amount}
    if fresh and amount > MAPPED_BYTES:
        return {"first_touch_bandwidth": amount}
    if _near(machine, 2 * amount) == "memory":
        return {"write_bandwidth": amount}
    return {_copy_limit(v, machine, 2 * amount): amount}


def _touched(v: Variant, machine: Machine) -> float:
    """Return the bytes of W0 that the rotating minibatches read, no more rows than there are.

    In the published geometry the rows are positions of the batch, most of them among its first.
    """
    rows = v.embedding if v.geometry == PUBLISHED else v.minibatch
    return min(v.vocabulary, rows * machine.index_sets) * _row(v)


def _gather(v: Variant, machine: Machine, *, fresh: bool = True) -> Amounts:
    """Return the cost of the bytes of a gather: each row read once and written once.

    CuPy's own kernel takes two 64-bit remainders an element; where their cost was measured, it counts.
    """
    moved = _add(
        _read(v, machine, v.result_bytes, _touched(v, machine)),
        _write(v, machine, v.result_bytes, fresh=fresh),
    )
    if v.backend == "cupy" and machine.has("cupy", "remainder_element"):
        elements = v.result_rows * v.embedding
        arithmetic = {"remainder_element": 2.0 * elements}
        slower = machine.seconds("cupy", arithmetic) > machine.seconds("cupy", moved)
        return arithmetic if slower else moved
    return moved


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


def _decode(v: Variant, machine: Machine) -> Amounts:
    """Return the cost of the bytes of one ``argmax`` over the whole of X, along its rows or its columns.

    NumPy copies X to make the axis contiguous where it is not, then looks at each element.
    """
    size = _one_hot_bytes(v)
    read = _read(v, machine, size, size * machine.index_sets)
    if v.backend != "numpy":
        return read
    elements = {"argmax_contiguous_element": size / 8}
    across = _is_strided(v)
    known = machine.has("numpy", "transpose_bandwidth")
    limit = "transpose_bandwidth" if known else _copy_limit(v, machine, 2 * size)
    copied = {limit: 2 * size} if across else {}
    looked = elements if machine.seconds("numpy", elements) > machine.seconds("numpy", read) else read
    return _add(looked, copied)


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
    each = {f"{call}_element": steps * (length - 1.0) * (1.0 if strided else item / 8)}
    size = _one_hot_bytes(v)
    far = _read(v, machine, size, size * machine.index_sets)
    slower = far if machine.seconds("numpy", far) > machine.seconds("numpy", each) else each
    return _add({call: steps}, slower), {}


def _sides(v: Variant, moved: Amounts) -> tuple[Amounts, Amounts]:
    """Put bytes on the side that moves them."""
    return (moved, {}) if v.backend == "numpy" else ({}, moved)


def _phase(v: Variant, calls: Mapping[str, float], *moved: Amounts) -> Phase:
    """Return one phase of some calls and some bytes."""
    host, device = _sides(v, _add(*moved))
    return Phase(_add(calls, host), device)


# Loops --------------------------------------------------------------------------------------------


@structure("published_loop", "loop_vstack")
def _the_loop(v: Variant, machine: Machine) -> list[Phase]:
    """Iterate, ask any of h, decode, look up, copy h: ``bool(any())`` ends a phase at each step."""
    steps = v.result_rows
    asked: Amounts = {"any_bool": steps}
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


@structure("rung_no_any", "corrected_no_any")
def _without_any(v: Variant, machine: Machine) -> list[Phase]:
    steps = v.result_rows
    looked, scanned = _looked_at(v, machine)
    host, device = _sides(v, _grown(v, machine, steps))
    views = {"index_int": steps} if v.implementation.startswith("corrected") else {}
    calls = {"iterate_item": steps, "index_0d": steps, "vstack_two": steps - 1}
    return [Phase(_add(calls, views, looked, host), _add(scanned, device))]


@structure("rung_argmax_once", "corrected_argmax_once")
def _argmax_once(v: Variant, machine: Machine) -> list[Phase]:
    steps = v.result_rows
    views = {"index_int": steps} if v.implementation.startswith("corrected") else {}
    calls = {"argmax_axis": 1, "iterate_item": steps, "index_0d": steps, "vstack_two": steps - 1}
    return [_phase(v, _add(calls, views), _decode(v, machine), _grown(v, machine, steps))]


def _decoded_to_host(v: Variant, machine: Machine) -> Phase:
    """Argmax of the whole, and its indices as Python ints."""
    calls = {"argmax_axis": 1, "to_list": 1, "to_list_item": max(v.result_rows - 16, 0)}
    return _phase(v, calls, _decode(v, machine))


@structure("rung_host_indices", "corrected_host_indices")
def _host_indices(v: Variant, machine: Machine) -> list[Phase]:
    steps = v.result_rows
    views = 2 if v.implementation.startswith("corrected") else 1
    calls = {"index_int": views * steps, "vstack_two": steps - 1}
    return [_decoded_to_host(v, machine), _phase(v, calls, _grown(v, machine, steps))]


def _listed(v: Variant, machine: Machine) -> Phase:
    """Return a view a row and one stack of them all; the copy of a small row is in an item's cost."""
    rows = v.result_rows
    calls = {"index_int": rows, "stack_two": 1, "stack_item": max(rows - 2, 0)}
    moved = _gather(v, machine) if v.backend != "numpy" else _beyond_cache(v, machine)
    return _phase(v, calls, moved)


def _beyond_cache(v: Variant, machine: Machine) -> Amounts:
    """Return the cost of rows that the small limits found in a cache and a variant does not."""
    read = _read(v, machine, v.result_bytes, _touched(v, machine))
    return {} if _near(machine, _touched(v, machine)) == "cached" else read


@structure("rung_list_stack", "corrected_list_stack")
def _list_stack(v: Variant, machine: Machine) -> list[Phase]:
    return [_decoded_to_host(v, machine), _listed(v, machine)]


@structure("loop_list_stack")
def _list_of_indices(v: Variant, machine: Machine) -> list[Phase]:
    calls = {"to_list": 1, "to_list_item": max(v.minibatch - 16, 0)}
    return [Phase(_add(calls)), _listed(v, machine)]


def _assigned(v: Variant, machine: Machine) -> Phase:
    """Return each row looked up and written to its place by a call of its own."""
    moved = _gather(v, machine) if v.backend != "numpy" else _beyond_cache(v, machine)
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
    return [_phase(v, {"argmax_axis": 1, "fancy_index_few": 1}, _decode(v, machine), _gather(v, machine))]


@structure("rung_gather_indices", "fancy_index")
def _fancy_index(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"fancy_index_few": 1}, _gather(v, machine))]


@structure("rung_take", "take")
def _take(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"take_few": 1}, _gather(v, machine))]


@structure("rung_take_out", "take_out")
def _take_out(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"take_out_few": 1}, _gather(v, machine, fresh=False))]


def _bytes_alone(v: Variant, machine: Machine) -> Amounts:
    """Return the bytes of a gather whose kernel does no arithmetic worth counting."""
    return _add(_read(v, machine, v.result_bytes, _touched(v, machine)), _write(v, machine, v.result_bytes))


@structure("take_wide")
def _take_wide(v: Variant, machine: Machine) -> list[Phase]:
    """Take elements of 16 bytes, a quarter of the elements, and view them back."""
    wide = _add(_bytes_alone(v, machine))
    if machine.has("cupy", "remainder_element"):
        arithmetic = {"remainder_element": 2.0 * v.result_bytes / 16}
        slower = machine.seconds("cupy", arithmetic) > machine.seconds("cupy", wide)
        wide = arithmetic if slower else wide
    return [_phase(v, {"take_few": 1, "index_int": 1}, wide)]


@structure("elementwise_kernel")
def _elementwise_kernel(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"elementwise": 1, "index_int": 1}, _gather(v, machine))]


@structure("raw_kernel")
def _raw_kernel(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"launch": 1, "allocate_small": 1}, _bytes_alone(v, machine))]


@structure("raw_kernel_out")
def _raw_kernel_out(v: Variant, machine: Machine) -> list[Phase]:
    return [_phase(v, {"launch": 1}, _bytes_alone(v, machine))]


@structure("cuda_graph")
def _cuda_graph(v: Variant, machine: Machine) -> list[Phase]:
    """Share one launch and one copy of indices among the minibatches of a graph; of one, as timed."""
    share = 1.0 / implementations.get(v.implementation, v.backend).group(v)
    indices = {"copy_bandwidth": 2.0 * v.minibatch * ITEM_BYTES[v.index_dtype]}
    return [_phase(v, {"launch": share}, _bytes_alone(v, machine), indices)]


@structure("dense_dot")
def _dense_dot(v: Variant, machine: Machine) -> list[Phase]:
    """2 m V E operations, or the bytes of X and W0 where those take longer."""
    rate = "product_rate" if v.threads == 1 or v.backend != "numpy" else "product_rate_all"
    operations = {rate: 2.0 * v.minibatch * v.vocabulary * v.embedding * ITEM_BYTES[v.dtype] / 4}
    size = _one_hot_bytes(v) + v.table_bytes
    read = _read(v, machine, size, size)
    bound = max((operations, read), key=lambda one: machine.seconds(v.backend, one))
    return [_phase(v, {"matmul_small": 1}, bound)]


@structure("sparse_dot")
def _sparse_dot(v: Variant, machine: Machine) -> list[Phase]:
    """Gather and multiply by one; CuPy copies W0 to Fortran order first, on every call."""
    copied = {"copy_bandwidth": 2.0 * v.table_bytes} if v.backend == "cupy" else {}
    return [_phase(v, {"csr_small": 1}, _bytes_alone(v, machine), copied)]


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
