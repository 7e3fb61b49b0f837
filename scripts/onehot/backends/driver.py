"""The CUDA driver, woken while Python imports an array library."""

import ctypes
import threading


def wake() -> None:
    """Begin to make the first GPU's context, on a thread of its own.

    The driver needs as long for it as Python for the import of an array library, and holds no lock of
    Python's. The library then finds the context made: it is the device's primary one, which all share.
    """
    threading.Thread(target=_retain_context, daemon=True).start()


def _retain_context() -> None:
    """Where there is no driver or no device, nothing is done: the backend's probe says why."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0:
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
