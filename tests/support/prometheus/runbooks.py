"""Runs the commands of a runbook while its fault lasts, and compares what they print.

Pages show what was printed once. In their output, `…` stands for any text within a line, a line
with only `…` for any lines, a number other than 0 for any other than 0, and 0 only for 0.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from local.errors import LocalError
from local.waiting import wait_until
from tests.support.docs_examples import (
    ROOT,
    RUN_BY,
    Example,
    examples_run_by,
    shell_environment,
)
from tests.system.queryable.terminal import run_in_terminal

FOLDER = ROOT / "docs" / "runbooks"
PARTS = ("Run first", "Safe now", "To be planned", "Never")
"""The sections of each page, in this order."""

_TIMEOUT = 20.0  # s until a command prints what the page shows; it may be run several times
_MAX_S = 90.0  # for one run, on a busy machine: `check` waits for a broker
# b1 and utf8 are names
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_ANY_NUMBER = r"(?=[\d.]*[1-9])\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_ANY_ZERO = r"0+(?:\.0+)?"


def page_of(alert: str) -> Path:
    return FOLDER / f"{alert}.md"


def examples_in(alert: str) -> list[str]:
    """The blocks of commands that a test runs."""
    return [block for _, block in RUN_BY.findall(page_of(alert).read_text())]


def walk(test: Path, alert: str, differing: Mapping[str, str]) -> None:
    """Runs the commands that the page of the alert marks for this test, in order. Fails if one of
    them does not print within 20 s what the page shows.

    `differing`: a text of the page -> that of this deployment, such as addresses and folders.
    """
    examples = examples_run_by(test, page_of(alert))
    assert examples, f"{alert}.md has no commands for {test.name}"
    for example in examples:
        _check(example, differing)


def _check(example: Example, differing: Mapping[str, str]) -> None:
    command, shown = (_here(text, differing) for text in (example.command, example.shown))
    environment = shell_environment(f"http://{differing.get('127.0.0.1:8080', '')}")
    printed = ""

    def is_as_shown() -> bool:
        nonlocal printed
        printed = _run(command, environment)
        return output_matches(shown, printed)

    try:
        wait_until(is_as_shown, _TIMEOUT, f"the output of {example.command}")
    except LocalError:
        message = f"{example.page.name}: $ {example.command}\n{printed}"
        raise AssertionError(message) from None


def _here(text: str, differing: Mapping[str, str]) -> str:
    for of_page, actual in differing.items():
        text = text.replace(of_page, actual)
    return text


def _run(command: str, environment: dict[str, str]) -> str:
    """What the command writes: `queryable` alone to a terminal, any other to a pipe."""
    arguments = ["bash", "-c", command]
    if command.startswith("queryable ") and "|" not in command:
        return run_in_terminal(arguments, environment, columns=120)[1]
    done = subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment, text=True, check=False, timeout=_MAX_S,
    )  # fmt: skip
    return done.stdout


def output_matches(shown: str, printed: str) -> bool:
    """Whether a command has printed what a page shows. The width of spaces does not count."""
    pattern = ""
    for line in _lines(shown):
        pattern += r"(?:.*\n)*?" if line == "…" else f"{_line_pattern(line)}\n"
    text = "".join(f"{line}\n" for line in _lines(printed))
    return re.fullmatch(pattern, text) is not None


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _line_pattern(line: str) -> str:
    return ".*".join(map(_text_pattern, line.split("…")))


def _text_pattern(text: str) -> str:
    parts, end = [], 0
    for number in _NUMBER.finditer(text):
        parts.append(re.escape(text[end : number.start()]))
        parts.append(_ANY_NUMBER if float(number[0]) else _ANY_ZERO)
        end = number.end()
    return "".join([*parts, re.escape(text[end:])])
