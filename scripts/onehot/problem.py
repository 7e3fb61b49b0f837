"""The problem.

Weights W0, minibatches of tokens J, and the one-hot and sparse matrices that say the same as J.
"""

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onehot.errors import ProblemError
from onehot.variant import PUBLISHED, Variant

Array = npt.NDArray[Any]

_WEIGHTS_STREAM = 0
_WEIGHTS_PARTS = 16
"""Whatever the number of cores: the same seed gives the same W0 everywhere."""
_INDEX_STREAM = 1


@functools.lru_cache(maxsize=8)
def _zipf_cumulative(vocabulary: int, exponent: float) -> Array:
    mass = np.arange(1, vocabulary + 1, dtype=np.float64) ** -exponent
    cumulative = np.cumsum(mass)
    normed: Array = cumulative / cumulative[-1]
    return normed


def truncated_zipf(generator: np.random.Generator, vocabulary: int, exponent: float, size: int) -> Array:
    """Draw token numbers 0..vocabulary-1 with probability proportional to (token + 1) ** -exponent.

    NumPy's own Zipf sampler is unbounded: at exponent 1.2 a tenth of its samples leave a vocabulary of 50
    000, and clipping them would move the tail onto one row. The truncated law is sampled by inverting its
    distribution.

    Returns
    -------
    int64 array of shape (size,)
    """
    tokens = np.searchsorted(_zipf_cumulative(vocabulary, exponent), generator.random(size), side="right")
    return np.minimum(tokens, vocabulary - 1).astype(np.int64)


@functools.lru_cache(maxsize=1)
def _weights(seed: int, vocabulary: int, embedding: int, dtype: str) -> Array:
    """Kept between the probes of one process: every probe uses the same W0.

    Drawn in parts, each from a stream of its own, side by side: at the question's sizes one stream takes as
    long as all that a job spends on sampling.
    """
    W0 = np.empty((vocabulary, embedding), dtype)
    parts = np.array_split(W0.reshape(-1), _WEIGHTS_PARTS)

    def draw(number: int) -> None:
        part = parts[number]
        np.random.default_rng([seed, _WEIGHTS_STREAM, number]).random(out=part, dtype=part.dtype)
        part -= 0.5
        part *= 1.6

    with ThreadPoolExecutor() as pool:
        list(pool.map(draw, range(_WEIGHTS_PARTS)))
    W0.flags.writeable = False
    return W0


@dataclass(frozen=True)
class Problem:
    """Everything that a variant computes on, from a seed alone, the same on every backend.

    Attributes
    ----------
    variant : sizes, geometry, dtypes and the law of the indices.
    seed : of the weights and of every index set.
    """

    variant: Variant
    seed: int

    def weights(self) -> Array:
        """Return W0, shape (V, E), uniform in (-0.8, 0.8), in the variant's dtype."""
        v = self.variant
        return _weights(self.seed, v.vocabulary, v.embedding, v.dtype)

    def tokens(self, index_set: int) -> Array:
        """Return the tokens J of one minibatch, shape (m,).

        Below E in the published geometry, below V in the corrected one.
        """
        v = self.variant
        generator = np.random.default_rng([self.seed, _INDEX_STREAM, v.minibatch, index_set])
        if v.distribution == "zipf":
            J = truncated_zipf(generator, v.one_hot_columns, v.zipf_exponent, v.minibatch)
        else:
            J = generator.integers(0, v.one_hot_columns, v.minibatch, dtype=np.int64)
        return checked_indices(J.astype(v.index_dtype), v.one_hot_columns)

    def sparse(self, J: Array) -> tuple[Array, Array, Array]:
        """Return X in compressed sparse rows: (values, columns, row offsets)."""
        m = self.variant.minibatch
        return np.ones(m, self.variant.dtype), J.astype(np.int32), np.arange(m + 1, dtype=np.int32)

    def reference(self, W0: Array, J: Array) -> Array:
        """Return the result that every implementation of the geometry must give, bit for bit.

        Corrected: W0[J], shape (m, E). Published: W0[first], shape (E, E), with first[c] the first position
        that holds token c, and 0 where none does.
        """
        if self.variant.geometry == PUBLISHED:
            return W0[checked_indices(first_positions(J, self.variant.embedding), self.variant.vocabulary)]
        return W0[J]


def one_hot(xp: Any, J: Any, variant: Variant) -> Any:
    """Return X with X[i, J[i]] = 1, made where ``xp`` keeps its arrays.

    Shape (m, E) float64 as published, or (m, V) in W0's dtype as corrected; memory order as the variant says.
    """
    dtype = "float64" if variant.geometry == PUBLISHED else variant.dtype
    X = xp.empty((variant.minibatch, variant.one_hot_columns), dtype, order=variant.layout)
    # Not zeros(): on the CPU, pages never written all map to one page of zeros, and reading them costs
    # nothing.
    X.fill(0)
    X[xp.arange(variant.minibatch), J] = 1
    return X


def first_positions(J: Array, columns: int) -> Array:
    """Return, for each token 0..columns-1, the first position in J that holds it; 0 where none does."""
    first = np.zeros(columns, np.int64)
    present, positions = np.unique(J, return_index=True)
    first[present] = positions
    return first


def checked_indices(J: Array, rows: int) -> Array:
    """Return J unchanged where every index names a row.

    CuPy wraps an index out of range in silence, JAX clamps it, NumPy raises, and each treats negative ones
    in a way of its own: the study refuses both on the host, before a backend sees them.

    Raises
    ------
    ProblemError
        J is not a vector of integers, or an index is negative or not below ``rows``.
    """
    if J.ndim != 1 or J.dtype.kind not in "iu":
        raise ProblemError(f"indices must be a vector of integers, not {J.dtype} of shape {J.shape}")
    if J.size and (J.min() < 0 or J.max() >= rows):
        raise ProblemError(f"indices must lie in 0..{rows - 1}; found {J.min()}..{J.max()}")
    return J


def checked_one_hot(X: Array) -> Array:
    """Return X unchanged where every row holds a single 1 and zeros.

    ``argmax`` reads an all-zero row as token 0, a product reads it as no token; two ones are two tokens to
    a product and one to ``argmax``; a 2 doubles a product alone. Only for one-hot rows do they agree.

    Raises
    ------
    ProblemError
        Names the first row that is not one-hot.
    """
    wrong = ((X != 0).sum(axis=1) != 1) | (X.max(axis=1) != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ProblemError(
            f"row {row} is not one-hot: it holds {np.count_nonzero(X[row])} values that are not 0, "
            f"the largest {X[row].max()}"
        )
    return X
