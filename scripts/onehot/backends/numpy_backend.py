"""NumPy on the CPU."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt


class NumpyBackend:
    """NumPy: every call is done when it returns."""

    name = "numpy"
    xp: Any = np
    asynchronous = False
    no_device_timer = ""

    def __init__(self) -> None:
        self._limits: Any = None

    def probe(self) -> None:
        """NumPy runs wherever it imports."""

    def synchronize(self) -> None:
        """Nothing is ever queued."""

    def from_host(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the array itself."""
        return array

    def pinned(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Return ordinary memory, touched: nothing travels to a device."""
        array = np.empty(shape, dtype)
        array.fill(0)
        return array

    def to_host(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the array itself."""
        return array

    def sparse(self, parts: tuple[npt.NDArray[Any], ...], shape: tuple[int, int]) -> Any:
        """Return a SciPy CSR array. SciPy is imported for it alone: it costs every other job its start-up."""
        from scipy.sparse import csr_array

        return csr_array(parts, shape=shape)

    def set_threads(self, threads: int) -> int:
        """Set BLAS threads in this process, whatever OMP_NUM_THREADS said when it started."""
        import threadpoolctl

        wanted = threads or len(os.sched_getaffinity(0))
        self._limits = threadpoolctl.threadpool_limits(wanted, user_api="blas")
        pools = [
            pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"
        ]
        return max(pools, default=1)

    def free_bytes(self) -> int:
        """Return the memory that can be had without swapping.

        Within the control group's limit where there is one.
        """
        import psutil

        return min(int(psutil.virtual_memory().available), _cgroup_free_bytes())

    def device_timer(self) -> None:
        """NumPy has no device of its own."""
        return None

    def identity(self) -> dict[str, Any]:
        """Return nothing: the CPU is described with the host."""
        return {}


def _cgroup_free_bytes() -> int:
    """Bytes left under a version-2 control group's limit.

    A scheduler's job is killed there, whatever the host has.
    """
    try:
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as current:
            text = limit.read().strip()
            return int(text) - int(current.read()) if text != "max" else 1 << 62
    except (OSError, ValueError):
        return 1 << 62


def create() -> NumpyBackend:
    """Return the backend."""
    return NumpyBackend()
