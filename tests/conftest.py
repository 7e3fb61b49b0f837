"""What several test modules share."""

import pytest
from onehot.backends import registry as backends
from onehot.errors import UnavailableError


@pytest.fixture(scope="session")
def cupy_backend():
    """CuPy on a GPU; where there is none the test is skipped with the backend's own reason."""
    try:
        backend = backends.load("cupy")
        backend.probe()
    except UnavailableError as error:
        pytest.skip(f"no GPU: {error}")
    return backend
