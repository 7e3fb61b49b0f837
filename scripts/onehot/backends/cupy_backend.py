"""CuPy on an NVIDIA GPU."""

import importlib.metadata
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from onehot.backends import driver
from onehot.backends.numpy_backend import NumpyBackend
from onehot.errors import UnavailableError, one_line

INSTALL_HINT = "install the toolkit's libraries beside it: pip install 'cupy-cuda12x[ctk]'"
DISTRIBUTIONS = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy-rocm-5-0", "cupy-rocm-7-0")

HOLD_CYCLES = 60_000_000
"""The hold gives up after this many clock cycles, about 30 ms.

A call that fills the launch queue would never end it.
"""

_HOLD_SOURCE = r"""
extern "C" __global__ void hold(volatile int* release, int* gave_up, long long most_cycles) {
    long long start = clock64();
    int late = 0;
    while (*release == 0) {
        if (clock64() - start > most_cycles) { late = 1; break; }
    }
    *gave_up = late;
}
"""


def installed_distributions() -> list[str]:
    """Names of the CuPy packages installed here; two at once overwrite each other's files."""
    found = []
    for name in DISTRIBUTIONS:
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        found.append(name)
    return found


class CupyBackend:
    """CuPy: calls queue work and return; the device runs it later."""

    name = "cupy"
    asynchronous = True
    no_device_timer = ""

    def __init__(self, cupy: Any) -> None:
        self.xp = cupy

    def probe(self) -> None:
        """Run one compiled kernel: importing proves neither a driver nor a compiler."""
        _require_device(self.xp)
        try:
            table = self.xp.arange(8, dtype=self.xp.float32)
            kernel = self.xp.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x + 1", "onehot_probe")
            answer = self.xp.asnumpy(kernel(table))
        except (
            Exception
        ) as error:  # CuPy raises NVRTC, driver, import and runtime errors that share no base class
            raise UnavailableError(_kernel_reason(error)) from error
        if not np.array_equal(answer, 2 * np.arange(8, dtype=np.float32) + 1):
            raise UnavailableError(f"a kernel ran and gave a wrong result: {answer.tolist()}")

    def synchronize(self) -> None:
        """Wait for the current stream."""
        self.xp.cuda.get_current_stream().synchronize()

    def from_host(self, array: npt.NDArray[Any]) -> Any:
        """Copy to the device; the memory order is kept."""
        return self.xp.asarray(array)

    def pinned(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Return page-locked memory, touched."""
        from cupyx import zeros_pinned

        array: npt.NDArray[Any] = zeros_pinned(shape, dtype)
        return array

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Copy to the host."""
        copied: npt.NDArray[Any] = self.xp.asnumpy(array)
        return copied

    def sparse(self, parts: tuple[npt.NDArray[Any], ...], shape: tuple[int, int]) -> Any:
        """Return a CuPy CSR matrix."""
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(tuple(self.xp.asarray(part) for part in parts), shape=shape)

    def set_threads(self, threads: int) -> int:
        """Hold the host's BLAS to one thread: the device's products do not use it."""
        return NumpyBackend().set_threads(1)

    def free_bytes(self) -> int:
        """Return the free memory of the device."""
        return int(self.xp.cuda.runtime.memGetInfo()[0])

    def device_timer(self) -> "HeldStreamTimer":
        """Return the timer of the device clock."""
        return HeldStreamTimer(self.xp)

    def identity(self) -> dict[str, Any]:
        """Return UUID, PCI address, L2 size, multiprocessors, the TF32 switch and what the pool holds."""
        runtime = self.xp.cuda.runtime
        properties = runtime.getDeviceProperties(self.xp.cuda.Device().id)
        return {
            "uuid": driver.uuid(self.xp.cuda.Device().id),
            "pci_bus_id": runtime.deviceGetPCIBusId(self.xp.cuda.Device().id),
            "name": properties["name"].decode(),
            "l2_bytes": int(properties["l2CacheSize"]),
            "multiprocessors": int(properties["multiProcessorCount"]),
            "memory_total_bytes": int(properties["totalGlobalMem"]),
            "compute_capability": f"{properties['major']}.{properties['minor']}",
            "tf32": os.environ.get("CUPY_TF32", "0") == "1",
            "accelerators": os.environ.get("CUPY_ACCELERATORS", "cub"),
            "pool_bytes": int(self.xp.get_default_memory_pool().total_bytes()),
            "pool_limit_bytes": int(self.xp.get_default_memory_pool().get_limit()),
        }


class HeldStreamTimer:
    """CUDA events around a call that waits behind a kernel holding the stream.

    Events around a short call on an idle stream measure how slowly the host queues it. Here a kernel spins
    on a flag in pinned host memory until the host has queued call and events; then the device runs them
    without a gap. NVBench's blocking kernel is the same idea.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._kernel = cupy.RawKernel(_HOLD_SOURCE, "hold")
        memory = cupy.cuda.alloc_pinned_memory(4)
        self._release = np.frombuffer(memory, np.int32, 1)
        self._address = np.uint64(memory.ptr)
        self._gave_up = cupy.zeros(1, cupy.int32)
        self._start, self._stop = cupy.cuda.Event(), cupy.cuda.Event()
        l2 = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"]
        self._flush = cupy.empty(max(4 * int(l2), 1 << 20), cupy.uint8)

    def seconds(self, call: Any, *, cold: bool) -> float:
        """Return the device seconds of one call; see ``DeviceTimer``."""
        stream = self._cupy.cuda.get_current_stream()
        if cold:
            self._flush.fill(1)
        stream.synchronize()
        self._release[0] = 0
        self._kernel((1,), (1,), (self._address, self._gave_up, np.int64(HOLD_CYCLES)))
        self._start.record(stream)
        result = call()
        self._stop.record(stream)
        self._release[0] = 1
        self._stop.synchronize()
        del result
        if int(self._gave_up[0]):
            raise UnavailableError("queueing the call outlasted the kernel that holds the stream")
        return float(self._cupy.cuda.get_elapsed_time(self._start, self._stop)) / 1e3


def _require_device(cupy: Any) -> None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        raise UnavailableError(f"CUDA_VISIBLE_DEVICES is {visible!r}: every GPU is hidden from this process")
    packages = installed_distributions()
    if len(packages) > 1:
        raise UnavailableError(
            f"{len(packages)} CuPy packages are installed ({', '.join(packages)}); keep one: "
            f"pip uninstall {' '.join(packages)}, then install one"
        )
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except (
        Exception
    ) as error:  # the binding raises its own classes, and an import error where the driver is missing
        raise UnavailableError(_device_reason(error)) from error
    if count == 0:
        raise UnavailableError("the CUDA driver finds no GPU")


def _device_reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "cudaErrorInsufficientDriver" in text or "libcuda.so" in text:
        return f"no NVIDIA driver, or one older than CuPy's CUDA runtime ({text})"
    if "cudaErrorNoDevice" in text:
        return f"no CUDA device ({text})"
    return f"CUDA does not start: {one_line(error)}"


def _kernel_reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    if (
        "nvrtc" in text.lower()
        or "failed to find" in text.lower()
        or "cuda_fp16.h" in text
        or "CUDA_PATH" in text
    ):
        return f"a GPU is there, but CuPy cannot compile a kernel ({text[:300]}); {INSTALL_HINT}"
    return f"a kernel did not run: {one_line(error)}"


def create() -> CupyBackend:
    """Return the backend.

    Raises
    ------
    UnavailableError
        CuPy is not installed, or does not import.
    """
    try:
        import cupy
    except Exception as error:  # a broken installation raises more than ImportError
        text = " ".join(str(error).split())
        missing = isinstance(error, ModuleNotFoundError) and error.name == "cupy"
        reason = (
            "CuPy is not installed: pip install cupy-cuda12x"
            if missing
            else f"CuPy does not import: {text[:300]}"
        )
        raise UnavailableError(reason) from error
    return CupyBackend(cupy)
