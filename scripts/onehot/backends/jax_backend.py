"""JAX on the CPU and on an NVIDIA GPU: one library, two backends.

JAX has no stream to wait for: one waits for an array. The implementations therefore put each result into
``latest``, and ``synchronize`` waits for it. On the GPU, computations finish in the order in which they were
queued, so the last one done is all done. On the CPU they need not: dispatch is made synchronous there.
"""

import ctypes
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from onehot.backends import driver
from onehot.backends.base import Backend
from onehot.backends.numpy_backend import NumpyBackend
from onehot.errors import UnavailableError, one_line

_MULTIPROCESSORS = 16
_L2_BYTES = 38
_MAJOR, _MINOR = 75, 76


class JaxBackend:
    """JAX: on the CPU a call is done when it returns, on the GPU it is queued."""

    def __init__(self, jax: Any, name: str, platform: str) -> None:
        self.jax = jax
        self.xp = jax.numpy
        self.name = name
        self.platform = platform
        self.asynchronous = platform == "cuda"
        self.no_device_timer = "JAX gives no access to its stream, so no event can be placed around a call"
        self.latest: list[Any] = [None]

    def probe(self) -> None:
        """Run one computation: importing proves neither a driver nor a plugin."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if self.asynchronous and visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
            raise UnavailableError(f"CUDA_VISIBLE_DEVICES is {visible!r}: every GPU is hidden")
        try:
            self.jax.devices(self.platform)
        except Exception as error:  # RuntimeError without a device, AssertionError without the plugin
            found = f"JAX {self.jax.__version__} has no {self.platform} device here"
            raise UnavailableError(f"{found} ({one_line(error)})") from error
        try:
            answer = self.to_host(2 * self.xp.arange(8) + 1)
        except Exception as error:  # XLA's errors share no base class with the plugin's
            raise UnavailableError(f"a computation did not run: {one_line(error)}") from error
        if not np.array_equal(answer, 2 * np.arange(8) + 1):
            raise UnavailableError(f"a computation ran and gave a wrong result: {answer.tolist()}")

    def synchronize(self) -> None:
        """Wait for the latest result."""
        if self.latest[0] is not None:
            self.latest[0].block_until_ready()

    def from_host(self, array: npt.NDArray[Any]) -> Any:
        """Copy to the device and wait for the copy."""
        return self.jax.device_put(array).block_until_ready()

    def pinned(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Return ordinary memory, touched: JAX locks none for its user."""
        return NumpyBackend().pinned(shape, dtype)

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Copy to the host."""
        return np.asarray(array)

    def sparse(self, parts: tuple[npt.NDArray[Any], ...], shape: tuple[int, int]) -> Any:
        """Return a matrix in compressed sparse rows."""
        from jax.experimental.sparse import BCSR

        return BCSR(tuple(self.from_host(part) for part in parts), shape=shape)

    def set_threads(self, threads: int) -> int:
        """Set the threads of the CPU client, which reads them once when it starts; so it is started again."""
        if self.asynchronous:
            return 1
        from jax.extend.backend import clear_backends

        wanted = threads or len(os.sched_getaffinity(0))
        os.environ["NPROC"] = os.environ["PJRT_NPROC"] = str(wanted)
        clear_backends()
        return wanted

    def free_bytes(self) -> int:
        """Return the memory that XLA may still take of the device."""
        if not self.asynchronous:
            return NumpyBackend().free_bytes()
        known = self.jax.devices()[0].memory_stats()
        return int(known["bytes_limit"]) - int(known["bytes_in_use"])

    def device_timer(self) -> None:
        """There is none; ``no_device_timer`` says why."""
        return None

    def identity(self) -> dict[str, Any]:
        """Return UUID, PCI address, L2 size and multiprocessors, asked of the driver: JAX does not say."""
        return _driver_identity(self.jax.devices()[0].local_hardware_id) if self.asynchronous else {}


def _driver_identity(ordinal: int) -> dict[str, Any]:
    cuda = ctypes.CDLL("libcuda.so.1")
    device = ctypes.c_int()
    name, address = (ctypes.create_string_buffer(size) for size in (96, 32))
    total = ctypes.c_size_t()
    for status in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), ordinal),
        cuda.cuDeviceGetName(name, 96, device),
        cuda.cuDeviceGetPCIBusId(address, 32, device),
        cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device),
    ):
        if status:
            raise UnavailableError(f"the CUDA driver does not describe device {ordinal}: error {status}")

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    return {
        "uuid": driver.uuid(ordinal),
        "pci_bus_id": address.value.decode(),
        "name": name.value.decode(),
        "l2_bytes": attribute(_L2_BYTES),
        "multiprocessors": attribute(_MULTIPROCESSORS),
        "memory_total_bytes": total.value,
        "compute_capability": f"{attribute(_MAJOR)}.{attribute(_MINOR)}",
    }


def _create(name: str, platform: str) -> JaxBackend:
    """Import JAX for one platform, with 64-bit types, without taking three quarters of the GPU's memory."""
    os.environ["JAX_PLATFORMS"] = platform
    os.environ["JAX_ENABLE_X64"] = "1"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    try:
        import jax
    except Exception as error:  # a broken installation raises more than ImportError
        missing = isinstance(error, ModuleNotFoundError) and error.name == "jax"
        reason = "is not installed: pip install jax" if missing else f"does not import: {one_line(error)}"
        raise UnavailableError(f"JAX {reason}") from error
    # The same once more, for a process that had imported JAX before: it reads the environment at import only.
    jax.config.update("jax_platforms", platform)
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    return JaxBackend(jax, name, platform)


def create_cpu() -> Backend:
    """Return the backend ``jax_cpu``.

    Raises
    ------
    UnavailableError
        JAX is not installed, or does not import.
    """
    return _create("jax_cpu", "cpu")


def create_cuda() -> Backend:
    """Return the backend ``jax_cuda``.

    Raises
    ------
    UnavailableError
        JAX is not installed, or does not import.
    """
    return _create("jax_cuda", "cuda")
