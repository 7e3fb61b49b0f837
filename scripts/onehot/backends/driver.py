"""The CUDA driver, asked directly: woken while Python imports, and for what a library does not say whole."""

import ctypes
import threading

from onehot.errors import UnavailableError


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


def uuid(ordinal: int) -> str:
    """Return the UUID of a device that this process sees, as NVML writes it.

    The device's properties hold it as text, which ends at its first zero byte: one such byte, and CuPy gives
    less than all of it.

    Raises
    ------
    UnavailableError
        The driver refuses; the message has its error.
    """
    cuda = ctypes.CDLL("libcuda.so.1")
    device, raw = ctypes.c_int(), ctypes.create_string_buffer(16)
    for status in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), ordinal),
        cuda.cuDeviceGetUuid_v2(raw, device),
    ):
        if status:
            raise UnavailableError(f"the CUDA driver does not name device {ordinal}: error {status}")
    digits = raw.raw.hex()
    pieces = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "GPU-" + "-".join(pieces)
