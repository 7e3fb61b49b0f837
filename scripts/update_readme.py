"""Fill the marked blocks of README.md with reference results.

A block stands between a line that names a file and a line that ends it:

    <!-- table: results/reference/MACHINE/tables/NAME.md -->      the table's text
    <!-- figure: results/reference/MACHINE/figures/NAME.svg: ALTERNATIVE TEXT -->      the picture
    <!-- end -->

A machine without a folder of reference results was not measured yet, and its blocks say so. A machine with a
folder must have the file. Input: the files that the blocks name. Output: README.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_MEASURED = "*Not measured yet.*"
REFERENCE = re.compile(r"results/reference/[^/]+(?=/)")
COMMENT = re.compile(r"^<!-- (?!end -->)(.*?) -->$", re.MULTILINE)
BLOCK = re.compile(
    r"^<!-- (table|figure): (\S+?)(?:: (.+?))? -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL
)


class ReadmeError(Exception):
    """A marked block that cannot be filled."""


def filled(text: str, root: Path) -> str:
    """Give the text with every marked block filled from the files below `root`.

    Raises
    ------
    ReadmeError
        There is no block, a marker is misspelt or has no end, or a measured machine lacks the file.
    """
    blocks = BLOCK.findall(text)
    markers = COMMENT.findall(text)
    if not blocks or len(blocks) != len(markers) or any("<!--" in block[3] for block in blocks):
        raise ReadmeError(f"{len(markers)} markers open {len(blocks)} blocks that end: {'; '.join(markers)}")
    return BLOCK.sub(lambda block: _block(block, root), text)


def _block(block: re.Match[str], root: Path) -> str:
    kind, path, alternative, _ = block.groups()
    first, last = block[0].splitlines()[0], block[0].splitlines()[-1]
    return f"{first}\n{_content(kind, path, alternative or '', root)}\n{last}"


def _content(kind: str, path: str, alternative: str, root: Path) -> str:
    """Give what a block holds: a table's text, a picture, or that nothing was measured yet."""
    folder = REFERENCE.match(path)
    if folder is None:
        raise ReadmeError(f"{path} lies outside results/reference, where committed results are")
    if not (root / folder[0]).is_dir():
        return NOT_MEASURED
    if not (root / path).is_file():
        raise ReadmeError(f"{path} is missing; draw it: snakemake --cores 1 reference")
    return (root / path).read_text().strip("\n") if kind == "table" else f"![{alternative}]({path})"


def main(readme: Path, root: Path) -> None:
    """Write the filled text where it differs."""
    text = readme.read_text()
    new = filled(text, root)
    if new != text:
        readme.write_text(new)


if __name__ == "__main__":
    try:
        main(ROOT / "README.md", ROOT)
    except ReadmeError as error:
        sys.exit(f"update_readme: {error}")
