"""The scheduler and the copy of the study that the tests of this folder share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import cluster
import pytest

STUDY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def slurm() -> Iterator[cluster.Slurm]:
    """Start a scheduler, and end what it runs and then itself."""
    missing = cluster.missing_packages()
    if missing:
        pytest.skip(f"no Slurm here: install {' and '.join(missing)}")
    with cluster.started() as running:
        yield running


@pytest.fixture(scope="session")
def study(slurm: cluster.Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Study]:
    """Make a copy of the study whose results nobody else reads."""
    folder = tmp_path_factory.mktemp("study")
    shutil.copy(STUDY / "Snakefile", folder)
    for name in ("workflow", "scripts", "config", "tests/slurm"):
        shutil.copytree(STUDY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    study = cluster.Study(folder, slurm)
    yield study
    study.end()
