"""The other libraries: what is installed runs and gives the reference's bits; what is not says so."""

import subprocess
import sys

import numpy as np
import pytest
from onehot import implementations
from onehot.backends import registry
from onehot.errors import UnavailableError
from onehot.implementations.registry import LOOKUP
from onehot.preparation import prepare
from onehot.problem import Problem
from onehot.variant import Variant

PEERS = ("numba", "torch_cpu", "torch_cuda", "jax_cpu", "jax_cuda")
ON_THE_CPU = ("numba", "torch_cpu", "jax_cpu")
SINGLE = [
    (backend, entry.name) for backend, entry in implementations.entries()
    if backend in ON_THE_CPU and entry.minibatches_per_call == 1 and entry.task == LOOKUP
]  # fmt: skip


def loaded(name):
    try:
        backend = registry.load(name)
        backend.probe()
    except UnavailableError as error:
        pytest.skip(str(error))
    return backend


def variant(backend, name, m=300, E=300, dtype="float32", index_dtype="int64", threads=1):
    return Variant("corrected", backend, name, m, 1000, E, dtype, index_dtype, "uniform", 0.0, "C", threads)


@pytest.mark.parametrize(("backend", "name"), SINGLE)
@pytest.mark.parametrize(("E", "dtype", "index_dtype"), [
    (300, "float32", "int64"), (1, "float32", "int32"), (3, "float64", "int64"), (301, "float64", "int32"),
])  # fmt: skip
def test_a_peer_gives_the_reference_bit_for_bit(backend, name, E, dtype, index_dtype):
    running = loaded(backend)
    running.set_threads(1)
    for m in (1, 300):
        one = variant(backend, name, m, E, dtype, index_dtype)
        prepared = prepare(running, Problem(one, 7), 2)  # raises where a bit differs
        problem = Problem(one, 7)
        for call, J in zip(prepared.calls, prepared.tokens, strict=True):
            result = running.to_host(call())
            assert result.dtype == dtype
            assert np.array_equal(result, problem.weights()[J])


@pytest.mark.parametrize("name", ON_THE_CPU)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_thread_count_in_force_is_the_one_asked_for(name, threads):
    backend = loaded(name)
    if name == "numba" and threads > backend.numba.config.NUMBA_NUM_THREADS:
        pytest.skip("Numba's pool has one thread here")
    assert backend.set_threads(threads) == threads


@pytest.mark.parametrize("name", ON_THE_CPU)
def test_a_backend_on_the_cpu_is_done_when_it_returns(name):
    backend = loaded(name)
    assert not backend.asynchronous
    assert backend.device_timer() is None
    assert backend.identity() == {}
    assert backend.free_bytes() > 0


def test_jax_computes_in_the_dtype_that_is_asked_for():
    backend = loaded("jax_cpu")
    assert backend.from_host(np.ones(3)).dtype == np.float64
    assert backend.from_host(np.arange(3)).dtype == np.int64


@pytest.mark.parametrize("name", PEERS)
def test_a_missing_library_is_a_reason_and_no_crash(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name.split("_")[0], None)  # an import of it now fails
    with pytest.raises(UnavailableError, match=r"does not import|not installed"):
        registry.load(name)


def test_planning_imports_no_peer():
    code = "import onehot.implementations, sys; print({'torch', 'jax', 'numba', 'cupy'} & set(sys.modules))"
    path = str(next(one for one in sys.path if one.endswith("scripts")))
    command, environment = [sys.executable, "-c", code], {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "set()"
