"""Records the console in a terminal, for the picture in the README.

    make up && python -m tests.system.queryable.recording          # writes docs/console.svg

The commands run in a pseudo-terminal against the running stack.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from local.errors import LocalError, friendly
from local.settings import REPOSITORY
from tests.system.queryable.terminal import run_in_terminal

PICTURE = REPOSITORY / "docs" / "console.svg"
WIDTH = 144
TITLE = "queryable"
COMMANDS = (
    "queryable views",
    "queryable get latest-departure N14228",
    "queryable top latest-departure --by delay --limit 5",
    "queryable aggregate latest-departure --by origin --value delay",
    "queryable count latest-departure --exact",
    "queryable windows requests-per-minute 127.0.0.1",
    "queryable scan latest-departure --prefix N10 --limit 2 --json",
    "queryable watch word-count lambda --count 1",
)


def terminal_output(command: str) -> str:
    """The output of a command in a terminal, with colours; ``LocalError`` if it fails."""
    arguments = [sys.executable, "-m", *shlex.split(command)]
    status, output = run_in_terminal(arguments, os.environ, WIDTH, "xterm-256color")
    if status not in (0, 1):
        raise LocalError(f"{command!r} ended with {status}:\n{output}")
    return output


def record(commands: tuple[str, ...] = COMMANDS) -> str:
    """The commands and their output as an SVG picture."""
    screen = Console(record=True, width=WIDTH, file=StringIO())
    for command in commands:
        screen.print(Text(f"$ {command}", style="bold"))
        screen.print(Text.from_ansi(terminal_output(command)))
    # Without web fonts, the reader's fonts are used.
    return re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", screen.export_svg(title=TITLE), flags=re.S)


@friendly
def main() -> None:
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    picture.write_text(record())
    print(f"Wrote {picture}.")


if __name__ == "__main__":
    main()
