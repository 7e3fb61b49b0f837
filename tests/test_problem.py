"""The problem.

The same indices everywhere, laws that stay inside the vocabulary, preconditions that are checked.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onehot import problem
from onehot.errors import ProblemError
from onehot.problem import Problem
from onehot.variant import Variant


def variant(geometry="corrected", minibatch=32, **changes) -> Variant:
    values = {
        "vocabulary": 100,
        "embedding": 12,
        "dtype": "float32",
        "index_dtype": "int64",
        "distribution": "uniform",
        "zipf_exponent": 0.0,
        "layout": "C",
        "threads": 1,
    }
    return Variant(geometry, "numpy", "fancy_index", minibatch, **{**values, **changes})


def published_loop_by_hand(W0, X):
    """The specification of the published loop, one element at a time."""
    rows = []
    for column in range(X.shape[1]):
        position = next((i for i in range(X.shape[0]) if X[i, column] != 0), 0)
        rows.append(W0[position])
    return np.array(rows)


def test_the_same_seed_gives_the_same_indices_whatever_the_backend_or_implementation():
    one = Problem(variant(), 5).tokens(0)
    other = Problem(Variant(**{**variant().__dict__, "backend": "cupy", "implementation": "take"}), 5).tokens(
        0
    )
    assert np.array_equal(one, other)


def test_index_sets_and_seeds_differ():
    sets = [Problem(variant(), seed).tokens(number).tobytes() for seed in (1, 2) for number in (0, 1, 2)]
    assert len(set(sets)) == 6


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(2, 60), st.integers(0, 1000))
def test_the_published_reference_is_what_the_loop_specifies(minibatch, embedding, seed):
    one = Problem(variant("published", minibatch, embedding=embedding, vocabulary=500), seed)
    J, W0 = one.tokens(0), one.weights()
    X = problem.one_hot(np, J, one.variant)
    assert np.array_equal(one.reference(W0, J), published_loop_by_hand(W0, X))


def test_columns_that_never_occur_fabricate_row_zero():
    """Expected are 300 (1 - 1/300)^16 = 284.4 of 300 columns at m = 16."""
    counts = []
    for seed in range(200):
        one = Problem(variant("published", 16, embedding=300, vocabulary=400), seed)
        J = one.tokens(0)
        counts.append(300 - np.unique(J).size)
    assert np.mean(counts) == pytest.approx(300 * (1 - 1 / 300) ** 16, abs=0.3)


@pytest.mark.parametrize(
    ("exponent", "expected"), [(None, 2006.6), (0.8, 1592.6), (1.0, 1087.3), (1.2, 599.3)]
)
def test_distinct_rows_of_a_minibatch_are_those_of_the_truncated_law(exponent, expected):
    law = (
        {"distribution": "uniform"}
        if exponent is None
        else {"distribution": "zipf", "zipf_exponent": exponent}
    )
    one = Problem(variant(minibatch=2048, vocabulary=50_000, **law), 3)
    distinct = [np.unique(one.tokens(number)).size for number in range(40)]
    assert np.mean(distinct) == pytest.approx(expected, rel=0.01)


@settings(deadline=None)
@given(st.floats(0.05, 3.0), st.integers(2, 3000), st.integers(0, 99))
def test_zipf_indices_never_leave_the_vocabulary(exponent, vocabulary, seed):
    one = Problem(variant(vocabulary=vocabulary, distribution="zipf", zipf_exponent=exponent), seed)
    J = one.tokens(0)
    assert J.min() >= 0 and J.max() < vocabulary


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_lie_in_the_questions_range_in_the_dtype_asked_for(dtype):
    W0 = Problem(variant(vocabulary=2000, dtype=dtype), 1).weights()
    assert W0.dtype == dtype and -0.8 <= W0.min() < -0.79 and 0.79 < W0.max() <= 0.8


@pytest.mark.parametrize("layout", ["C", "F"])
def test_one_hot_rows_hold_one_at_their_token_in_the_layout_asked_for(layout):
    one = Problem(variant(layout=layout), 1)
    J = one.tokens(0)
    X = problem.one_hot(np, J, one.variant)
    assert X.flags[f"{layout}_CONTIGUOUS"] and np.array_equal(X.argmax(axis=1), J) and X.sum() == J.size
    assert problem.checked_one_hot(X) is X


@pytest.mark.parametrize("J", [[-1], [100], [0, 5, 200]])
def test_an_index_out_of_range_is_refused_before_a_backend_sees_it(J):
    with pytest.raises(ProblemError, match=r"0\.\.99"):
        problem.checked_indices(np.array(J), 100)


def test_an_int8_index_that_wrapped_round_is_refused():
    with pytest.raises(ProblemError, match="-56"):
        problem.checked_indices(np.array([200]).astype(np.int8), 300)


@pytest.mark.parametrize("J", [np.array([0.0]), np.array([[1]]), np.array([], dtype=float)])
def test_indices_that_are_no_vector_of_integers_are_refused(J):
    with pytest.raises(ProblemError, match="vector of integers"):
        problem.checked_indices(J, 100)


@pytest.mark.parametrize(
    ("row", "words"), [([0, 0, 0], "0 values"), ([1, 1, 0], "2 values"), ([0, 2, 0], "largest 2")]
)
def test_rows_that_are_not_one_hot_are_refused(row, words):
    X = np.array([[0, 0, 1.0], row])
    with pytest.raises(ProblemError, match=f"row 1 is not one-hot.*{words}"):
        problem.checked_one_hot(X)


def test_argmax_and_product_disagree_where_a_row_is_not_one_hot():
    """Why the precondition is checked at all."""
    W0 = np.arange(12.0).reshape(3, 4) + 1
    for row in ([0, 0, 0], [1, 1, 0], [0, 2, 0]):
        X = np.array([row], dtype=float)
        assert not np.array_equal(W0[X.argmax(axis=1)], X @ W0)


def test_a_nan_in_a_row_that_no_index_names_spoils_the_dense_product_alone():
    W0 = np.ones((5, 3), np.float32)
    W0[4] = np.nan
    one = Problem(variant(vocabulary=5, embedding=3, minibatch=2), 0)
    J = np.array([0, 1])
    X = problem.one_hot(np, J, one.variant)
    from scipy.sparse import csr_array

    values, columns, offsets = one.sparse(J)
    assert np.isnan(X @ W0).all()
    assert np.isfinite(W0[J]).all()
    assert np.isfinite(csr_array((values, columns, offsets), shape=(2, 5)) @ W0).all()


def test_a_gradient_by_plain_indexing_counts_duplicates_once():
    plain, right = np.zeros(3), np.zeros(3)
    plain[[0, 0, 1]] += 1
    np.add.at(right, [0, 0, 1], 1)
    assert plain.tolist() == [1, 1, 0] and right.tolist() == [2, 1, 0]
