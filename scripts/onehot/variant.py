"""The identity of what is measured: one variant, and where its records lie."""

import dataclasses
from dataclasses import dataclass

PUBLISHED = "published"
CORRECTED = "corrected"
GEOMETRIES = (PUBLISHED, CORRECTED)
DTYPES = ("float32", "float64")
INDEX_DTYPES = ("int32", "int64")
DISTRIBUTIONS = ("uniform", "zipf")
LAYOUTS = ("C", "F")

ALL_CORES = 0
"""The value of ``threads`` that means every core the process may run on."""

ITEM_BYTES = {"float32": 4, "float64": 8, "int32": 4, "int64": 8}


@dataclass(frozen=True, order=True)
class Variant:
    """One point of the sweep.

    Attributes
    ----------
    geometry : ``published`` (as the question's code computes) or ``corrected`` (as its author meant).
    backend, implementation : names of the registries in ``onehot.backends`` and ``onehot.implementations``.
    minibatch : m, rows of one minibatch.
    vocabulary : V, rows of W0.
    embedding : E, columns of W0.
    dtype : of W0 and of the result.
    index_dtype : of the index vector J.
    distribution, zipf_exponent : the law J is drawn from; the exponent is 0 where the law is uniform.
    layout : memory order of the one-hot matrix, ``C`` or ``F``.
    threads : threads of a product or a parallel loop; 0 is every core of the machine.
    """

    geometry: str
    backend: str
    implementation: str
    minibatch: int
    vocabulary: int
    embedding: int
    dtype: str
    index_dtype: str
    distribution: str
    zipf_exponent: float
    layout: str
    threads: int

    @property
    def one_hot_columns(self) -> int:
        """Length of a one-hot row.

        E in the published geometry (the question's slip), V in the corrected one.
        """
        return self.embedding if self.geometry == PUBLISHED else self.vocabulary

    @property
    def result_rows(self) -> int:
        """Rows of the result: E in the published geometry, m in the corrected one."""
        return self.embedding if self.geometry == PUBLISHED else self.minibatch

    @property
    def result_bytes(self) -> int:
        """Bytes of the result matrix h."""
        return self.result_rows * self.embedding * ITEM_BYTES[self.dtype]

    @property
    def table_bytes(self) -> int:
        """Bytes of the weight matrix W0."""
        return self.vocabulary * self.embedding * ITEM_BYTES[self.dtype]

    def at(self, minibatch: int) -> "Variant":
        """Return the same variant at another minibatch size."""
        return dataclasses.replace(self, minibatch=minibatch)

    @property
    def path(self) -> str:
        """The variant as the instance of the sweep's parameter space that names its record files."""
        values = vars(self)
        folders = "/".join(f"{name}~{values[name]}" for name in FOLDER_COLUMNS)
        return folders + "/" + "_".join(f"{name}~{values[name]}" for name in FILE_COLUMNS)


COLUMNS = tuple(field.name for field in dataclasses.fields(Variant))
FOLDER_COLUMNS = ("geometry", "backend", "implementation")
FILE_COLUMNS = tuple(name for name in COLUMNS if name not in FOLDER_COLUMNS)
