"""NumPy's arrays with loops that Numba compiles and spreads over threads."""

import os
from typing import Any

from onehot.backends.base import Backend
from onehot.backends.numpy_backend import NumpyBackend
from onehot.errors import UnavailableError


class NumbaBackend(NumpyBackend):
    """Numba: every call is done when it returns."""

    name = "numba"

    def __init__(self, numba: Any) -> None:
        super().__init__()
        self.numba = numba

    def probe(self) -> None:
        """Compile and run one parallel loop: importing proves neither a compiler nor a threading layer."""
        numba = self.numba

        def triangle(length: int) -> Any:
            total = 0
            for number in numba.prange(length):
                total += number
            return total

        try:
            answer = numba.njit(parallel=True)(triangle)(8)
        except Exception as error:  # Numba's errors share no base class with those of its threading layers
            text = " ".join(str(error).split())[:300]
            raise UnavailableError(f"a loop was not compiled: {type(error).__name__}: {text}") from error
        if answer != 28:
            raise UnavailableError(f"a loop ran and gave a wrong result: {answer}")

    def set_threads(self, threads: int) -> int:
        """Set the threads of parallel loops: at most as many as Numba's pool was started with."""
        wanted = threads or len(os.sched_getaffinity(0))
        self.numba.set_num_threads(min(wanted, self.numba.config.NUMBA_NUM_THREADS))
        return int(self.numba.get_num_threads())


def create() -> Backend:
    """Return the backend.

    Raises
    ------
    UnavailableError
        Numba is not installed, or does not import.
    """
    try:
        import numba
    except Exception as error:  # Numba refuses a NumPy that is too new with an ImportError of its own
        text = " ".join(str(error).split())[:300]
        missing = isinstance(error, ModuleNotFoundError) and error.name == "numba"
        reason = "Numba is not installed: pip install numba" if missing else f"Numba does not import: {text}"
        raise UnavailableError(reason) from error
    return NumbaBackend(numba)
