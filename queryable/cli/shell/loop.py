"""The loop of the shell: reads a line, runs the command, prints errors, and continues."""

from __future__ import annotations

import difflib
import shlex
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from queryable.cli.exit_codes import INTERRUPTED, SUCCESS, USAGE_ERROR, print_stderr
from queryable.cli.history import Entry, add_to_history, read_history
from queryable.cli.output import OUTPUTS, set_default_output
from queryable.cli.shell.completion import Completer
from queryable.client.protocol.errors import BadUse

PROMPT = "queryable> "
LEAVE = ("exit", "quit")
_HELP = """\
A line is a command of queryable, without the first word: get VIEW KEY, scan VIEW --limit 5, …
  help [COMMAND]   the commands, or one of them
  output table|vertical|json|csv
                   how rows are printed from now on
  exit             leave; so does Ctrl-D
Tab completes commands, options, views and keys. Ctrl-R searches in the history.\
"""


class Shell:
    """`run`: runs a command and returns its exit code. `commands`: the names of the commands."""

    def __init__(
        self, run: Callable[[list[str]], int], commands: Collection[str], history: Path
    ) -> None:
        self._run = run
        self._commands = commands
        self._history = history

    def interact(self) -> int:
        """Reads lines until the end of the input; returns the exit code of the last command."""
        status = SUCCESS
        while True:
            try:
                line = input(PROMPT if sys.stdin.isatty() else "")
            except EOFError:
                if sys.stdin.isatty():
                    print()
                return status
            except KeyboardInterrupt:
                print()
                continue
            except UnicodeDecodeError as error:
                print_stderr(f"queryable: the line is not {error.encoding} text")
                status = USAGE_ERROR
                if not sys.stdin.isatty():
                    return status
                continue
            if line.strip() in LEAVE:
                return status
            if line.strip():
                status = self.execute(line.strip())

    def execute(self, line: str) -> int:
        """Runs one line; returns its exit code."""
        began = time.monotonic()
        now = time.time_ns() // 1_000_000
        try:
            status = self._execute(shlex.split(line))
        except ValueError as error:
            print_stderr(f"queryable: {error}: {line}")
            status = USAGE_ERROR
        except KeyboardInterrupt:
            print_stderr("")
            status = INTERRUPTED
        if sys.stdin.isatty():
            seconds = round(time.monotonic() - began, 3)
            add_to_history(self._history, Entry(now, line, status, seconds))
        return status

    def _execute(self, words: list[str]) -> int:
        if words[0] == "queryable":  # copied from the documentation
            words = words[1:] or ["help"]
        name, *arguments = words
        if name == "help" and not arguments:
            print(_HELP)
            return self._run(["--help"])
        if name == "help":
            return self._run([arguments[0], "--help"])
        if name == "output":
            return self._set_output(arguments)
        if name == "shell" or name not in self._commands:
            close = difflib.get_close_matches(name, [*self._commands, "help", "exit", "output"], 1)
            hint = f" Did you mean {close[0]}?" if close and close[0] != name else ""
            print_stderr(f"queryable: no command {name} here.{hint} `help` lists them.")
            return USAGE_ERROR
        return self._run(words)

    @staticmethod
    def _set_output(arguments: list[str]) -> int:
        if len(arguments) != 1 or arguments[0] not in OUTPUTS:
            print_stderr(f"queryable: output is one of {', '.join(OUTPUTS)}.")
            return USAGE_ERROR
        with suppress(BadUse):
            set_default_output(OUTPUTS[arguments[0]])
        return SUCCESS


def set_up_readline(readline: ModuleType, completer: Completer, history: Path) -> None:
    """Connects a terminal's line editor with completion and history."""
    for entry in read_history(history):
        readline.add_history(entry.command)
    candidates: list[str] = []

    def complete(word: str, state: int) -> str | None:
        nonlocal candidates
        if state == 0:
            try:
                candidates = completer.complete(
                    readline.get_line_buffer()[: readline.get_begidx()], word
                )
            except Exception:  # readline would drop it silently, and a prompt must not end
                candidates = []
        return candidates[state] if state < len(candidates) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n")
    readline.set_auto_history(True)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
