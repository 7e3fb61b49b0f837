"""Limits on a real GPU: all are measured, and the study's own kernels do what they say."""

import math

import numpy as np
import pytest
from onehot import limits
from onehot.backends import registry
from onehot.backends.base import Backend
from onehot.errors import UnavailableError
from onehot.limits import Limit, LimitSettings

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def backend() -> Backend:
    try:
        found = registry.load("cupy")
        found.probe()
    except UnavailableError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture(scope="module")
def on_gpu(backend: Backend) -> dict[str, Limit]:
    settings = LimitSettings(
        seed=1, timeout_seconds=60, samples=6, call_seconds=0.01, bulk_seconds=0.02, scale=0.25
    )
    found = limits.measure_limits(backend, settings)
    assert [one.name for one in found] == limits.names("cupy")
    return {one.name: one for one in found}


@pytest.mark.parametrize("name", limits.names("cupy"))
def test_every_limit_is_measured(on_gpu: dict[str, Limit], name: str) -> None:
    one = on_gpu[name]
    assert one.seconds, one.note
    assert all(math.isfinite(value) for value in one.values)
    if not name.removesuffix("_enqueue").endswith(("_item", "_element")):  # differences
        assert min(one.values) > 0


@pytest.mark.parametrize("words", [4, 4096, 4 * 1_000_003])
@pytest.mark.parametrize("repeats", [1, 3])
def test_read16_reads_every_word_as_often_as_asked(backend: Backend, words: int, repeats: int) -> None:
    xp = backend.xp
    table = np.random.default_rng(words).integers(0, 1 << 32, words, np.uint32)
    total = xp.zeros(1, np.uint32)
    kernel = xp.RawModule(code=limits.KERNELS).get_function("read16")
    kernel((7,), (256,), (xp.asarray(table), np.int64(words // 4), np.int32(repeats), total))
    assert int(total[0]) == int(table.sum(dtype=np.uint64)) * repeats % (1 << 32)


@pytest.mark.parametrize("words", [4, 4096, 4 * 1_000_003])
def test_fill16_fills_all_and_no_more(backend: Backend, words: int) -> None:
    xp = backend.xp
    table = xp.zeros(words + 4, np.uint32)
    kernel = xp.RawModule(code=limits.KERNELS).get_function("fill16")
    kernel((7,), (256,), (table, np.int64(words // 4), np.uint32(limits.FILLED)))
    assert bool((table[:words] == limits.FILLED).all())
    assert not bool(table[words:].any())
