"""The CUDA driver asked through a library that stands in for it."""

import ctypes
from types import SimpleNamespace

import pytest
from onehot.backends import driver
from onehot.errors import UnavailableError

UUID = bytes.fromhex("00112233445566778899aabbccddeeff")


class FakeDriver:
    """Answers as libcuda does; ``failing`` names the call that returns an error."""

    def __init__(self, failing=""):
        self.calls = []
        self.failing = failing

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append(name)
            if name == "cuDeviceGetUuid_v2":
                ctypes.memmove(arguments[0], UUID, 16)
            return 100 if name == self.failing else 0

        return call


def installed(monkeypatch, library):
    monkeypatch.setattr(driver, "ctypes", SimpleNamespace(**vars(ctypes) | {"CDLL": lambda name: library}))
    return library


def test_a_uuid_that_begins_with_a_zero_byte_is_whole(monkeypatch):
    installed(monkeypatch, FakeDriver())
    assert driver.uuid(0) == "GPU-00112233-4455-6677-8899-aabbccddeeff"


def test_a_driver_that_refuses_is_quoted(monkeypatch):
    installed(monkeypatch, FakeDriver("cuDeviceGet"))
    with pytest.raises(UnavailableError, match="device 3: error 100"):
        driver.uuid(3)


@pytest.mark.parametrize(("failing", "made"), [("", True), ("cuInit", False), ("cuDeviceGet", False)])
def test_the_context_is_made_where_there_is_a_device(monkeypatch, failing, made):
    library = installed(monkeypatch, FakeDriver(failing))
    driver._retain_context()
    assert ("cuDevicePrimaryCtxRetain" in library.calls) == made


def test_no_driver_is_no_error(monkeypatch):
    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(driver, "ctypes", SimpleNamespace(CDLL=absent))
    driver._retain_context()
