"""PyTorch on the CPU and on an NVIDIA GPU: one library, two backends."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from onehot.backends.base import Backend
from onehot.backends.numpy_backend import NumpyBackend
from onehot.errors import UnavailableError, one_line

HOLD_CYCLES = (2_000_000, 16_000_000, 64_000_000)
"""Clock cycles that a stream is held, about 1, 8 and 32 ms: the next where queueing outlasted the last."""


class TorchBackend:
    """PyTorch: on the CPU a call is done when it returns, on the GPU it is queued."""

    def __init__(self, torch: Any, name: str, device: str) -> None:
        self.xp = torch
        self.name = name
        self.device = device
        self.asynchronous = device == "cuda"
        self.no_device_timer = ""

    def probe(self) -> None:
        """Run one kernel: importing proves no driver."""
        if self.device == "cuda":
            _require_device(self.xp)
        try:
            answer = self.to_host(2 * self.xp.arange(8, device=self.device) + 1)
        except Exception as error:  # torch raises RuntimeError, AssertionError and classes of its own
            raise UnavailableError(f"a kernel did not run: {one_line(error)}") from error
        if not np.array_equal(answer, 2 * np.arange(8) + 1):
            raise UnavailableError(f"a kernel ran and gave a wrong result: {answer.tolist()}")

    def synchronize(self) -> None:
        """Wait for the current stream."""
        if self.asynchronous:
            self.xp.cuda.current_stream().synchronize()

    def from_host(self, array: npt.NDArray[Any]) -> Any:
        """Copy to the device; on the CPU too, since torch shares no memory that NumPy holds read-only."""
        return self.xp.tensor(array, device=self.device)

    def pinned(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Return page-locked memory, touched; on the CPU ordinary memory."""
        item = getattr(self.xp, np.dtype(dtype).name)
        array: npt.NDArray[Any] = self.xp.zeros(shape, dtype=item, pin_memory=self.asynchronous).numpy()
        return array

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Copy to the host."""
        copied: npt.NDArray[Any] = array.cpu().numpy()
        return copied

    def sparse(self, parts: tuple[npt.NDArray[Any], ...], shape: tuple[int, int]) -> Any:
        """Return a tensor in compressed sparse rows."""
        values, columns, offsets = (self.from_host(part) for part in parts)
        return self.xp.sparse_csr_tensor(offsets, columns, values, size=shape)

    def set_threads(self, threads: int) -> int:
        """Set the threads of an operation; one for the GPU, whose operations use none."""
        wanted = 1 if self.asynchronous else threads or len(os.sched_getaffinity(0))
        self.xp.set_num_threads(wanted)
        return int(self.xp.get_num_threads())

    def free_bytes(self) -> int:
        """Return the free memory of the device."""
        return int(self.xp.cuda.mem_get_info()[0]) if self.asynchronous else NumpyBackend().free_bytes()

    def device_timer(self) -> "SleepingStreamTimer | None":
        """Return the timer of the device clock; None on the CPU."""
        return SleepingStreamTimer(self.xp) if self.asynchronous else None

    def identity(self) -> dict[str, Any]:
        """Return UUID, PCI address, L2 size, multiprocessors, the TF32 switch and what the pool holds."""
        if not self.asynchronous:
            return {}
        known = self.xp.cuda.get_device_properties(self.xp.cuda.current_device())
        return {
            "uuid": f"GPU-{str(known.uuid).removeprefix('GPU-')}",
            "pci_bus_id": f"{known.pci_domain_id:04x}:{known.pci_bus_id:02x}:{known.pci_device_id:02x}.0",
            "name": known.name,
            "l2_bytes": int(known.L2_cache_size),
            "multiprocessors": int(known.multi_processor_count),
            "memory_total_bytes": int(known.total_memory),
            "compute_capability": f"{known.major}.{known.minor}",
            "tf32": bool(self.xp.backends.cuda.matmul.allow_tf32),
            "pool_bytes": int(self.xp.cuda.memory_reserved()),
        }


class SleepingStreamTimer:
    """CUDA events around a call that waits behind a kernel holding the stream.

    Torch brings a kernel that spins for a number of clock cycles, none that waits for the host. Whether it
    spun long enough is known all the same: had it ended before all was queued, the first event would be over.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._start, self._stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self._flush = torch.empty(max(4 * int(l2), 1 << 20), dtype=torch.uint8, device="cuda")

    def seconds(self, call: Any, *, cold: bool) -> float:
        """Return the device seconds of one call; see ``DeviceTimer``."""
        for cycles in HOLD_CYCLES:
            if self._held(call, cycles, cold=cold):
                return float(self._start.elapsed_time(self._stop)) / 1e3
        raise UnavailableError("queueing the call outlasted the kernel that holds the stream")

    def _held(self, call: Any, cycles: int, *, cold: bool) -> bool:
        """Time one call and say whether the stream was held until all of it was queued."""
        if cold:
            self._flush.fill_(1)
        stream = self._torch.cuda.current_stream()
        stream.synchronize()
        self._torch.cuda._sleep(cycles)
        self._start.record(stream)
        result = call()
        self._stop.record(stream)
        held = not self._start.query()
        self._stop.synchronize()
        del result
        return held


def _require_device(torch: Any) -> None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        raise UnavailableError(f"CUDA_VISIBLE_DEVICES is {visible!r}: every GPU is hidden from this process")
    if torch.version.cuda is None:
        raise UnavailableError(f"torch {torch.__version__} is built without CUDA")
    try:
        torch.cuda.init()
    except (
        Exception
    ) as error:  # RuntimeError without a driver or with an old one, AssertionError without CUDA
        raise UnavailableError(f"CUDA does not start: {one_line(error)}") from error


def _create(name: str, device: str) -> TorchBackend:
    try:
        import torch
    except Exception as error:  # a broken installation raises more than ImportError
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        reason = "is not installed: pip install torch" if missing else f"does not import: {one_line(error)}"
        raise UnavailableError(f"torch {reason}") from error
    return TorchBackend(torch, name, device)


def create_cpu() -> Backend:
    """Return the backend ``torch_cpu``.

    Raises
    ------
    UnavailableError
        Torch is not installed, or does not import.
    """
    return _create("torch_cpu", "cpu")


def create_cuda() -> Backend:
    """Return the backend ``torch_cuda``.

    Raises
    ------
    UnavailableError
        Torch is not installed, or does not import.
    """
    return _create("torch_cuda", "cuda")
