"""What the study asks of a backend."""

from typing import Any, Protocol

import numpy.typing as npt


class DeviceTimer(Protocol):
    """Measures the device's own time of work that was queued behind a held stream."""

    def seconds(self, call: Any, *, cold: bool) -> float:
        """Return the device seconds of one call, with the L2 flushed before where ``cold``.

        Raises
        ------
        UnavailableError
            The call outlasted the hold, so the host's gaps would be in the time.
        """
        ...


class Backend(Protocol):
    """One array library on one kind of processor."""

    name: str
    xp: Any
    asynchronous: bool
    no_device_timer: str
    """Why an asynchronous backend has no device clock; empty where it has one."""

    def probe(self) -> None:
        """Run one kernel and check its result.

        Raises
        ------
        UnavailableError
            With the reason, as the status table shows it.
        """
        ...

    def synchronize(self) -> None:
        """Wait until all queued work is done."""
        ...

    def from_host(self, array: npt.NDArray[Any]) -> Any:
        """Return the array where the backend computes, in the same memory order."""
        ...

    def pinned(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Return page-locked host memory, where a device copies from and to it.

        Ordinary memory where there is none.
        """
        ...

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Return a NumPy array of a result."""
        ...

    def sparse(self, parts: tuple[npt.NDArray[Any], ...], shape: tuple[int, int]) -> Any:
        """Return a matrix in compressed sparse rows from (values, columns, row offsets)."""
        ...

    def set_threads(self, threads: int) -> int:
        """Set the threads of products and return the number in force; 0 asks for every core."""
        ...

    def free_bytes(self) -> int:
        """Return the free memory of the device that holds the arrays."""
        ...

    def device_timer(self) -> DeviceTimer | None:
        """Return the timer of the device clock; None where host and device are one."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return what only the library knows of its device: UUID, PCI address, L2 bytes; empty on the CPU."""
        ...
