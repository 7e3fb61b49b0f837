"""The backward pass: duplicates add up, whatever the form; a whole step agrees with the one in float64."""

import numpy as np
import pytest
from onehot import implementations
from onehot.backends.numpy_backend import NumpyBackend
from onehot.errors import WrongResultError
from onehot.implementations import registry, training
from onehot.preparation import prepare
from onehot.problem import Problem
from onehot.tables import baselines
from onehot.variant import Variant
from test_peers import loaded, variant

ON_THE_CPU = [
    (backend, name) for name, (backends, *_) in training.SCATTERS.items()
    for backend in backends if backend in ("numpy", "numba", "torch_cpu")
]  # fmt: skip


def scattered(backend_name, name, table, J, D):
    """The scatter of a backend as a function of host arrays."""
    backend = loaded(backend_name)
    _, function, prepare = training.SCATTERS[name]
    on_device = backend.from_host(table.copy())
    one = variant(backend_name, name, len(J), table.shape[1], str(table.dtype), str(J.dtype))
    prepared = prepare(backend, one, on_device) if prepare else ()
    result = function(backend.xp, on_device, backend.from_host(J), backend.from_host(D), *prepared)
    backend.synchronize()
    return backend.to_host(result)


def problem(E=300, dtype="float32", index_dtype="int64", V=50, m=400):
    generator = np.random.default_rng(E)
    table, D = (generator.random((rows, E)).astype(dtype) - np.dtype(dtype).type(0.5) for rows in (V, m))
    return table, generator.integers(0, V, m).astype(index_dtype), D


@pytest.mark.parametrize(("backend", "name"), ON_THE_CPU)
def test_a_token_that_occurs_twice_gets_both_rows(backend, name):
    zeros, ones = np.zeros((3, 4), np.float32), np.ones((3, 4), np.float32)
    result = scattered(backend, name, zeros, np.array([0, 0, 1]), ones)
    assert result[:, 0].tolist() == [2, 1, 0]


def test_indexed_addition_loses_a_duplicate_and_is_refused():
    zeros, ones, J = np.zeros((3, 4), np.float32), np.ones((3, 4), np.float32), np.array([0, 0, 1])
    result = training.buffered_add(np, zeros.copy(), J, ones)
    assert result[:, 0].tolist() == [1, 1, 0]
    with pytest.raises(WrongResultError, match=r"first at \(0, 0\)"):
        training.compare_scatter(result, zeros, J, ones)


@pytest.mark.parametrize(("backend", "name"), ON_THE_CPU)
@pytest.mark.parametrize(("E", "dtype", "index_dtype"), [
    (300, "float32", "int64"), (1, "float32", "int32"), (301, "float64", "int32"), (3, "float64", "int64"),
])  # fmt: skip
def test_every_scatter_is_a_sum_of_the_right_rows(backend, name, E, dtype, index_dtype):
    table, J, D = problem(E, dtype, index_dtype)
    training.compare_scatter(scattered(backend, name, table, J, D), table, J, D)


def test_nan_and_a_single_wrong_element_are_refused():
    table, J, D = problem()
    right = training.add_at(np, table.copy(), J, D)
    training.compare_scatter(right, table, J, D)
    for wrong in (np.nan, 1e3):
        spoilt = right.copy()
        spoilt[7, 11] = wrong
        with pytest.raises(WrongResultError, match=r"1 elements .* first at \(7, 11\)"):
            training.compare_scatter(spoilt, table, J, D)


def step(xp, lookup, scatter, arrays):
    return training.train_step(xp, *arrays, 0.025, lookup, scatter)


@pytest.mark.parametrize("lookup", ["indexed", "row by row"])
@pytest.mark.parametrize("name", ["add_at", "sorted_reduceat", "rounds", "sparse_product"])
def test_a_step_in_float32_is_the_one_in_float64(lookup, name):
    W0, W1, J, C = tables()
    function = training.SCATTERS[name][1]
    looks_up = (lambda W, J: W[J]) if lookup == "indexed" else (lambda W, J: training.row_by_row(np, W, J))
    results = step(np, looks_up, lambda W, J, D: function(np, W, J, D), (W0.copy(), W1.copy(), J, C))
    assert results[0].dtype == np.float32
    training.compare_step(results, W0, W1, J, C, 0.025)


def test_a_step_that_loses_duplicates_is_refused():
    W0, W1, J, C = tables()
    loses = lambda W, J, D: training.buffered_add(np, W, J, D)  # noqa: E731
    results = step(np, lambda W, J: W[J], loses, (W0.copy(), W1.copy(), J, C))
    with pytest.raises(WrongResultError, match="the update of W0"):
        training.compare_step(results, W0, W1, J, C, 0.025)


def test_a_step_in_torch_is_the_same():
    backend = loaded("torch_cpu")
    W0, W1, J, C = tables()
    on_device = [backend.from_host(array) for array in (W0, W1, J, C)]
    adds = lambda W, J, D: training.torch_index_add(backend.xp, W, J, D)  # noqa: E731
    results = step(backend.xp, lambda W, J: W[J], adds, on_device)
    training.compare_step(tuple(backend.to_host(one) for one in results), W0, W1, J, C, 0.025)


def tables(V=500, E=300, m=256, noise=5):
    generator = np.random.default_rng(3)
    W0, W1 = (generator.random((V, E), dtype=np.float32) - np.float32(0.5) for _ in range(2))
    return W0, W1, generator.integers(0, V, m), generator.integers(0, V, (m, 1 + noise))


def measured(name, backend="numpy", m=400):
    return Variant("corrected", backend, name, m, 60, 30, "float32", "int64", "uniform", 0.0, "C", 1)


def test_a_scatter_that_loses_duplicates_is_refused_before_it_is_timed():
    before = dict(registry._REGISTRY)
    try:
        implementations.implementation(
            name="scatter_buffered",
            geometry="corrected",
            reads=registry.INDICES,
            backends=("numpy",),
            prepare=training._gradients,
            task=registry.SCATTER,
            check=training._check_scatter,
        )(training.buffered_add)
        with pytest.raises(WrongResultError, match="are no sum of rows"):
            prepare(NumpyBackend(), Problem(measured("scatter_buffered"), 3), 2)
    finally:
        registry._REGISTRY.clear()
        registry._REGISTRY.update(before)


@pytest.mark.parametrize("name", ["scatter_add_at", "step_gather", "step_loop", "step_fast"])
def test_thousands_of_calls_on_one_table_leave_it_finite_and_the_weights_as_they_were(name):
    problem = Problem(measured(name), 3)
    weights = problem.weights().copy()
    calls = prepare(NumpyBackend(), problem, 2).calls
    for call in calls * (5 if name == "step_loop" else 500):
        result = call()
    for table in result if isinstance(result, tuple) else (result,):
        assert np.isfinite(table).all() and np.abs(table).max() < 1e3
    assert np.array_equal(problem.weights(), weights)


def test_training_shares_no_baseline_with_lookups():
    every = [measured(name) for name in ("take", "fancy_index", "loop_vstack", "scatter_add_at", "step_loop",
                                         "scatter_rounds", "step_gather")]  # fmt: skip
    samples = {(one, "throughput"): [np.ones(3)] for one in every}
    against = {
        one.implementation: {found.implementation for _, found in baselines(one, samples, "throughput")}
        for one in every
    }
    assert against["scatter_rounds"] == {"scatter_add_at"} and against["step_gather"] == {"step_loop"}
    assert against["scatter_add_at"] == against["step_loop"] == set()
    assert against["take"] == {"loop_vstack", "fancy_index"}
