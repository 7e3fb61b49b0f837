"""Every rung computes what the loop computes, and the ladder names what exists."""

import numpy as np
import pytest
from onehot import implementations
from onehot.backends import registry as backends
from onehot.implementations.ladder import LADDERS
from onehot.implementations.registry import FIRST_POSITIONS, HOST_INDICES, PINNED_INDICES
from onehot.preparation import compare, form, prepare
from onehot.problem import Problem, first_positions
from onehot.variant import CORRECTED, PUBLISHED, Variant

RUNGS = [(geometry, name) for geometry, rungs in LADDERS.items() for name, _ in rungs]


def variant(geometry, name, *, minibatch=37, embedding=12, layout="C", dtype="float32", index_dtype="int64"):
    return Variant(
        geometry, "numpy", name, minibatch, 90, embedding, dtype, index_dtype, "uniform", 0.0, layout, 1
    )


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize(("geometry", "name"), RUNGS)
def test_every_rung_gives_the_reference_bit_for_bit(geometry, name, layout):
    if implementations.find(name, "numpy") is None:
        pytest.skip("on a GPU only")
    problem = Problem(variant(geometry, name, layout=layout), seed=5)
    prepared = prepare(backends.load("numpy"), problem, sets=3)  # checks one index set
    for call, J in zip(prepared.calls, prepared.tokens, strict=True):
        compare(call(), problem.reference(problem.weights(), J), problem.variant)


@pytest.mark.parametrize("minibatch", [1, 2, 16])
@pytest.mark.parametrize("name", [name for name, _ in LADDERS[PUBLISHED]])
def test_columns_that_hold_no_token_give_row_0_on_every_published_rung(name, minibatch):
    problem = Problem(variant(PUBLISHED, name, minibatch=minibatch), seed=1)
    prepare(backends.load("numpy"), problem, sets=1)


def test_a_ladder_is_of_one_geometry_and_names_no_implementation_twice():
    for geometry, rungs in LADDERS.items():
        names = [name for name, _ in rungs]
        assert len(set(names)) == len(names)
        for name in names:
            found = [implementations.find(name, backend) for backend in ("numpy", "cupy")]
            assert {entry.geometry for entry in found if entry} == {geometry}


def test_every_rung_but_the_kernels_runs_on_both_backends():
    alone = {name for _, name in RUNGS if implementations.find(name, "numpy") is None}
    assert alone == {"raw_kernel_out", "cuda_graph"}
    assert all(implementations.find(name, "cupy") for _, name in RUNGS)


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_first_positions_have_one_entry_a_token_and_the_index_dtype(index_dtype):
    problem = Problem(variant(PUBLISHED, "rung_take", index_dtype=index_dtype), seed=2)
    J = problem.tokens(0)
    first = form(backends.load("numpy"), problem, FIRST_POSITIONS, J)
    assert first.shape == (12,)
    assert first.dtype == index_dtype
    assert first.tolist() == first_positions(J, 12).tolist()
    entry = implementations.get("rung_take", "numpy")
    assert entry.input_bytes(problem.variant) == first.nbytes


@pytest.mark.parametrize("reads", [HOST_INDICES, PINNED_INDICES])
def test_indices_on_the_host_are_a_numpy_vector(reads):
    problem = Problem(variant(CORRECTED, "fancy_index"), seed=2)
    J = problem.tokens(0)
    found = form(backends.load("numpy"), problem, reads, J)
    assert type(found) is np.ndarray
    assert found.tolist() == J.tolist()


def test_transfers_say_when_they_wait():
    waits = {
        name: implementations.get(name, "cupy").synchronises
        for name in ("pageable_in", "pinned_in", "pageable_in_out", "pinned_in_out")
    }
    assert waits == {"pageable_in": False, "pinned_in": False, "pageable_in_out": True, "pinned_in_out": True}


@pytest.mark.gpu
@pytest.mark.parametrize(("geometry", "name"), RUNGS)
def test_every_rung_gives_the_reference_on_the_gpu(cupy_backend, geometry, name):
    if implementations.get(name, "cupy").minibatches_per_call > 1:
        pytest.skip("reads many minibatches a call")
    one = variant(geometry, name)
    problem = Problem(Variant(**{**one.__dict__, "backend": "cupy"}), seed=5)
    prepare(cupy_backend, problem, sets=1)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["pageable_in", "pinned_in", "pageable_in_out", "pinned_in_out"])
def test_every_transfer_gives_the_reference_on_the_gpu(cupy_backend, name):
    one = variant(CORRECTED, name)
    problem = Problem(Variant(**{**one.__dict__, "backend": "cupy"}), seed=5)
    prepare(cupy_backend, problem, sets=1)
