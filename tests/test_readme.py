"""README.md shows the committed results and nothing else, and what it and the other documents name exists."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest
import update_readme
import yaml
from onehot import catalogue, config, tables
from update_readme import ReadmeError

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "config/README.md")


# The blocks


def test_every_marked_block_of_the_readme_is_its_file():
    text = README.read_text()
    assert text == update_readme.filled(text, ROOT), "run python scripts/update_readme.py"


def test_the_readme_has_a_figure_and_a_table_of_the_reference():
    kinds = [block[0] for block in update_readme.BLOCK.findall(README.read_text())]
    assert kinds == ["figure", "table"]


TABLE = "<!-- table: results/reference/h200/tables/headline.md -->"
FIGURE = "<!-- figure: results/reference/h200/figures/headline.svg: the run: measured -->"
END = "<!-- end -->\n"


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Give a checkout with reference results."""
    for name, text in {
        "tables/headline.md": "| a |\n|---|\n| 1 |\n",
        "figures/headline.svg": "<svg/>",
    }.items():
        path = tmp_path / "results" / "reference" / "h200" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


def test_a_table_is_quoted_and_a_figure_is_shown(measured: Path):
    assert update_readme.filled(f"{TABLE}\nold\n{END}", measured) == f"{TABLE}\n| a |\n|---|\n| 1 |\n{END}"
    picture = "![the run: measured](results/reference/h200/figures/headline.svg)"
    assert update_readme.filled(f"x\n{FIGURE}\n{END}y", measured) == f"x\n{FIGURE}\n{picture}\n{END}y"


def test_filling_twice_changes_nothing(measured: Path):
    once = update_readme.filled(f"{TABLE}\n{END}\n{FIGURE}\n{END}", measured)
    assert update_readme.filled(once, measured) == once


def test_a_block_that_was_edited_by_hand_is_filled_anew(measured: Path):
    edited = update_readme.filled(f"{TABLE}\n{END}", measured).replace("| 1 |", "| 2 |")
    assert "| 1 |" in update_readme.filled(edited, measured)


def test_a_machine_without_reference_results_was_not_measured_yet(tmp_path: Path):
    for marker in (TABLE, FIGURE):
        assert (
            update_readme.filled(f"{marker}\nold\n{END}", tmp_path) == f"{marker}\n*Not measured yet.*\n{END}"
        )


def test_a_measured_machine_without_the_file_is_refused(measured: Path):
    (measured / "results/reference/h200/tables/headline.md").unlink()
    with pytest.raises(ReadmeError, match=r"headline\.md is missing; draw it"):
        update_readme.filled(f"{TABLE}\n{END}", measured)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no block at all\n",
        f"{TABLE}\n",
        f"{TABLE}\n{FIGURE}\n{END}",
        f"{TABLE}\n{END}\n<!-- tabel: results/reference/h200/tables/headline.md -->\n{END}",
        f"{TABLE}\n{END}\n<!-- table results/reference/h200/tables/headline.md -->\n{END}",
        f"<!-- table: results/h200/tables/headline.md -->\n{END}",
        f"<!-- table: headline.md -->\n{END}",
    ],
)
def test_a_marker_that_would_be_passed_over_is_refused(measured: Path, text: str):
    with pytest.raises(ReadmeError):
        update_readme.filled(text, measured)


def test_the_script_writes_the_readme(measured: Path):
    readme = measured / "README.md"
    readme.write_text(f"{TABLE}\n{END}")
    update_readme.main(readme, measured)
    assert "| 1 |" in readme.read_text()


# What the documents name


def test_the_readme_lists_every_table_and_every_figure():
    lists = {"table": catalogue.TABLES, "figure": catalogue.FIGURES}
    for kind, items in lists.items():
        head, _, rest = README.read_text().partition(f"| {kind} | what it ")
        assert head and rest
        rows = rest.partition("\n\n")[0].splitlines()[2:]
        named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
        assert sorted(named) == sorted(item.name for item in items)


def test_the_questions_two_times_are_those_that_the_tables_hold():
    first = README.read_text().partition("\n## ")[0]
    assert [float(number) for number in re.findall(r"(\d+\.\d+) s\b", first)] == list(
        tables.QUESTION_SECONDS.values()
    )


def test_every_example_of_a_configuration_is_valid():
    base = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    examples = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        config.load({**base, **yaml.safe_load(example)})


def anchors(text: str) -> set[str]:
    """Give the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_inside_the_project_leads_somewhere(name: str):
    document = ROOT / name
    prose = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose):
        path, _, anchor = target.partition("#")
        page = document.parent / path if path else document
        assert page.exists(), f"{name} links to {target}"
        assert not anchor or anchor in anchors(page.read_text()), f"{name} links to {target}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_script_that_a_document_names_is_there(name: str):
    named = set(re.findall(r"(?:python |`)(scripts/[\w/]+\.py)", (ROOT / name).read_text()))
    made_by_an_example = {"scripts/onehot/backends/plain_backend.py", "scripts/onehot/figures/outliers.py"}
    assert [path for path in named - made_by_an_example if not (ROOT / path).exists()] == []


def test_no_command_hands_its_target_to_an_option_that_takes_every_word_after_it():
    documents = "\n".join((ROOT / name).read_text() for name in [*DOCUMENTS, "workflow/profiles/README.md"])
    commands = re.findall(r"^snakemake .*$", documents, re.MULTILINE)
    assert len(commands) > 8
    for command in commands:
        words = shlex.split(command, comments=True)
        for option, allowed in (("--config", "="), ("--configfile", ".yaml")):
            if option in words:
                after = words[words.index(option) + 1 :]
                rest = itertools.takewhile(lambda word: not word.startswith("--"), after)
                assert all(allowed in word for word in rest), command
