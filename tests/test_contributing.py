"""The worked examples of CONTRIBUTING.md, taken from the page, put where they say, and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "CONTRIBUTING.md"

STEP = re.compile(
    r"^(?:New file `(?P<new>[^`]+)`|At the end of `(?P<end>[^`]+)`"
    r"|In `(?P<within>[^`]+)`, after `(?P<after>[^`]+)`|(?P<trial>To try it))"
    r":\n\n```(?:python|rst)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def inserted(before: str, line: str, text: str) -> str:
    """Put a text below a line, which must stand once."""
    lines = before.splitlines(keepends=True)
    (place,) = [number for number, have in enumerate(lines, start=1) if have.strip() == line.strip()]
    return "".join([*lines[:place], text, *lines[place:]])


@dataclass(frozen=True)
class Example:
    """What a section tells a reader to write, and the program that tries it."""

    steps: list[re.Match[str]]

    @property
    def trials(self) -> list[str]:
        return [step["text"] for step in self.steps if step["trial"]]

    def follow(self, checkout: Path) -> None:
        """Write what the section says into a copy of the project."""
        for step in self.steps:
            if step["new"]:
                path = checkout / step["new"]
                assert not path.exists(), f"{path} is there already"
                path.write_text(step["text"])
            elif step["end"]:
                path = checkout / step["end"]
                path.write_text(path.read_text() + step["text"])
            elif step["within"]:
                path = checkout / step["within"]
                path.write_text(inserted(path.read_text(), step["after"], step["text"]))

    def attempt(self, checkout: Path) -> subprocess.CompletedProcess[str]:
        """Run the program that tries it, in another process: the registries of this one stay as they are."""
        (program,) = self.trials
        path = os.pathsep.join([str(checkout / "scripts"), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


def examples(text: str) -> dict[str, Example]:
    """Read the sections that begin with Adding."""
    sections = re.findall(r"^## Adding an? (\w+)\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    return {name: Example(list(STEP.finditer(body))) for name, body in sections}


EXAMPLES = examples(DOCUMENT.read_text())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Give a copy of what the examples change."""
    for name in ("scripts/onehot", "workflow/report"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_page_has_an_example_of_everything_that_is_added():
    assert list(EXAMPLES) == ["implementation", "backend", "figure", "table"]


def test_every_block_of_an_example_is_put_somewhere():
    sections = DOCUMENT.read_text().partition("## Adding")[2]
    blocks = re.findall(r"^```(?:python|rst)$", sections, re.MULTILINE)
    assert len(blocks) == sum(len(example.steps) for example in EXAMPLES.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_it_stands(name: str, checkout: Path):
    EXAMPLES[name].follow(checkout)
    done = EXAMPLES[name].attempt(checkout)
    assert done.returncode == 0, done.stderr
    if name in {"implementation", "backend"}:
        assert done.stdout.startswith("checked: geometry~corrected/backend~")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_nothing_before_it_is_followed(name: str, checkout: Path):
    assert EXAMPLES[name].attempt(checkout).returncode != 0


@pytest.mark.parametrize("name", ["implementation", "backend"])
def test_an_example_with_a_wrong_result_is_refused(name: str, checkout: Path):
    EXAMPLES[name].follow(checkout)
    module = checkout / "scripts" / "onehot" / "implementations" / "gather.py"
    before, mark, example = module.read_text().rpartition("@implementation")
    module.write_text(before + mark + re.sub(r"return (.+)", r"return \1 + 1", example))
    done = EXAMPLES[name].attempt(checkout)
    assert done.returncode != 0
    assert "WrongResultError" in done.stderr


def test_the_figure_of_the_example_says_where_nothing_was_measured(checkout: Path):
    EXAMPLES["figure"].follow(checkout)
    EXAMPLES["figure"].attempt(checkout)
    assert (checkout / "nothing.svg").stat().st_size > 0
    assert (checkout / "outliers.svg").read_bytes() != (checkout / "nothing.svg").read_bytes()


@pytest.mark.parametrize(("name", "kind"), [("figure", "figures"), ("table", "tables")])
def test_the_catalogue_of_an_example_has_a_caption_for_its_item(name: str, kind: str, checkout: Path):
    EXAMPLES[name].follow(checkout)
    program = (
        "from onehot import catalogue; from pathlib import Path\n"
        f"item = catalogue.{kind.upper()}[0]\n"
        f"assert Path('workflow/report/{kind}', item.name + '.rst').exists(), item"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "scripts")}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_backend_of_the_example_has_every_method_of_the_protocol(checkout: Path):
    EXAMPLES["backend"].follow(checkout)
    program = (
        "from onehot.backends import registry; from onehot.backends.base import Backend\n"
        "asked = {*Backend.__annotations__, *(name for name in vars(Backend) if name[0] != '_')}\n"
        "lacking = {name for name in asked if not hasattr(registry.load('plain'), name)}\n"
        "assert asked and not lacking, lacking"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "scripts")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
