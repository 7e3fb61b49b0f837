"""The hash of measuring code: an edit of what a measurement depends on changes it, any other does not."""

import shutil

import pytest
from onehot import code_hash


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the library to edit."""
    target = tmp_path / "onehot"
    shutil.copytree(code_hash.LIBRARY, target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(code_hash.LIBRARY.parent / "measure.py", tmp_path)
    monkeypatch.setattr(code_hash, "LIBRARY", target)
    forget()
    yield target
    forget()


def forget():
    code_hash.modules_hash.cache_clear()
    code_hash._imports.cache_clear()


def hashes():
    forget()
    pairs = [("numpy", "fancy_index"), ("numpy", "loop_vstack"), ("cupy", "fancy_index")]
    return {pair: code_hash.measurement_hash(*pair) for pair in pairs}


@pytest.mark.parametrize(
    ("module", "changed"),
    [
        ("../measure.py", {("numpy", "fancy_index"), ("numpy", "loop_vstack"), ("cupy", "fancy_index")}),
        ("clocks.py", {("numpy", "fancy_index"), ("numpy", "loop_vstack"), ("cupy", "fancy_index")}),
        ("stopping.py", {("numpy", "fancy_index"), ("numpy", "loop_vstack"), ("cupy", "fancy_index")}),
        ("implementations/gather.py", {("numpy", "fancy_index"), ("cupy", "fancy_index")}),
        ("implementations/loops.py", {("numpy", "loop_vstack")}),
        ("backends/cupy_backend.py", {("cupy", "fancy_index")}),
        ("tables.py", set()),
        ("statistics.py", set()),
        ("machine.py", set()),
    ],
)
def test_an_edited_module_changes_exactly_the_hashes_that_depend_on_it(copy, module, changed):
    before = hashes()
    with (copy / module).open("a") as file:
        file.write("\n# edited\n")
    after = hashes()
    assert {pair for pair in before if before[pair] != after[pair]} == changed
