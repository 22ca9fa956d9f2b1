"""Records what a terminal shows of the console, as the picture in the README.

    make up && python -m local.session          # writes docs/console.svg

The commands are typed into a pseudo-terminal and asked of the running stack, so that the picture is
of a real run.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from local.errors import LocalError, friendly
from local.settings import REPOSITORY

PICTURE = REPOSITORY / "docs" / "console.svg"
WIDTH = 128
TITLE = "queryable"
COMMANDS = (
    "queryable views",
    "queryable get latest-departure N14228",
    "queryable top latest-departure --by delay --limit 5",
    "queryable count latest-departure --exact",
    "queryable windows requests-per-minute 127.0.0.1",
    "queryable scan latest-departure --prefix N10 --limit 2 --json",
    "queryable watch word-count lambda --count 1",
)
_TIMEOUT = 30.0  # s a command


def shown(command: str) -> str:
    """What a terminal gets of a command, with its colours; LocalError if it fails."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    arguments = [sys.executable, "-m", *shlex.split(command)]
    process = subprocess.Popen(
        arguments, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 65_536)
        except OSError:  # as Linux says the end of a terminal
            break
        if not part:
            break
        parts.append(part)
    os.close(leader)
    output = b"".join(parts).decode().replace("\r\n", "\n")
    if process.wait(_TIMEOUT) not in (0, 1):
        raise LocalError(f"{command!r} ended with {process.returncode}:\n{output}")
    return output


def record(commands: tuple[str, ...] = COMMANDS) -> str:
    """A picture of them all, as SVG."""
    screen = Console(record=True, width=WIDTH, file=StringIO())
    for command in commands:
        screen.print(Text(f"$ {command}", style="bold"))
        screen.print(Text.from_ansi(shown(command)))
    # no fonts from elsewhere: the reader's own will do
    return re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", screen.export_svg(title=TITLE), flags=re.S)


@friendly
def main() -> None:
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    picture.write_text(record())
    print(f"{picture} is written.")


if __name__ == "__main__":
    main()
