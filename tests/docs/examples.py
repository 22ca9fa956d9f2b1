"""The examples of the documentation: what a page tells to type, and the answer that it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALL_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)


@dataclass(frozen=True)
class Example:
    """A command line of a shell, and what it writes."""

    page: Path
    command: str
    shown: str

    @property
    def is_of_console(self) -> bool:
        """Whether it is one of `queryable`, not of curl."""
        return self.command.startswith("queryable ")


def examples_of(page: Path) -> list[Example]:
    """Those of a page, in its order: all that its blocks of kind `console` have."""
    return [
        Example(page, command.replace("\\\n", ""), shown.rstrip("\n"))
        for kind, text in BLOCK.findall(page.read_text())
        if kind == "console"
        for command, shown in _commands(text)
    ]


def _commands(block: str) -> Iterator[tuple[str, str]]:
    """Commands begin with `$ `, and go on in the next line behind a backslash."""
    before, *parts = re.split(r"^\$ ", block, flags=re.M)
    assert not before, f"an answer without a question: {before}"
    for part in parts:
        first = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
        assert first is not None, part
        yield first[0].rstrip("\n"), part[first.end() :]


def session_of(page: Path) -> str:
    """All blocks of kind `python`, which are one session of an interpreter."""
    blocks = [text for kind, text in BLOCK.findall(page.read_text()) if kind == "python"]
    return "\n".join(blocks)


PAGES = [page for page in ALL_PAGES if examples_of(page)]
