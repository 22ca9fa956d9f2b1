"""The examples of the documentation: the commands of a page, and the output that it shows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "proxy/README.md")]
ALL_PAGES = [*OUTSIDE, *sorted((ROOT / "docs").rglob("*.md"))]
RUN_BY = re.compile(r"^<!-- run by (\S+) -->\n```console\n(.*?)^```$", re.M | re.S)
"""Examples that another test runs, because they need Spark: its file, and the block."""
COMMANDS_RUN_BY = re.compile(r"^<!-- run by (\S+) -->\n```sh\n(.*?)^```$", re.M | re.S)
"""Commands with curl that another test runs: its file, and the block."""
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)


def shell_environment(url: str) -> dict[str, str]:
    """The environment of a shell in which `queryable` is the console script of this checkout.
    `url`: of the server."""
    scripts = Path(sys.executable).parent
    return {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "QUERYABLE_URL": url,
        "QUERYABLE_CONFIG": "/dev/null",
    }


@dataclass(frozen=True)
class Example:
    """A shell command, and its output."""

    page: Path
    command: str
    shown: str

    @property
    def is_of_console(self) -> bool:
        """Whether the command is `queryable`, not curl."""
        return self.command.startswith("queryable ")


def examples_of(page: Path) -> list[Example]:
    """The examples of a page, in order: the contents of its `console` blocks."""
    return [
        Example(page, command.replace("\\\n", ""), shown.rstrip("\n"))
        for kind, text in BLOCK.findall(RUN_BY.sub("", page.read_text()))
        if kind == "console"
        for command, shown in _commands(text)
    ]


def examples_run_by(test: Path, page: Path) -> list[Example]:
    """The examples of a page that this test runs."""
    return [
        Example(page, command, shown.rstrip("\n"))
        for file, text in RUN_BY.findall(page.read_text())
        if ROOT / file == test
        for command, shown in _commands(text)
    ]


def _commands(block: str) -> Iterator[tuple[str, str]]:
    """Commands begin with `$ `; a backslash continues them on the next line."""
    before, *parts = re.split(r"^\$ ", block, flags=re.M)
    assert not before, f"output without a command: {before}"
    for part in parts:
        first = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
        assert first is not None, part
        yield first[0].rstrip("\n"), part[first.end() :]


def session_of(page: Path) -> str:
    """The `python` blocks of a page, joined to one interpreter session."""
    blocks = [text for kind, text in BLOCK.findall(page.read_text()) if kind == "python"]
    return "\n".join(blocks)


PAGES = [page for page in ALL_PAGES if examples_of(page)]
