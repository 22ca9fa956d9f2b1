"""Files of environment variables in the format of systemd's `EnvironmentFile=`.

See systemd.exec(5). A line is NAME=value. Lines that begin with `#` or `;` are comments, and lines
without `=` are ignored. A backslash before the end of a line continues it. Values are stripped
unless they are quoted. Within single quotes each character is meant literally. Within double quotes
a backslash escapes a double quote, a backslash, a backtick and a dollar sign. Both may contain line
feeds. Nothing is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from queryable.client.protocol.errors import BadUse

_MAX_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BLANK = " \t\n\r"
_ESCAPED_IN_QUOTES = '"\\`$'
_END = "\n\r"


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file. Raises BadUse, also for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        hint = " Run the command as root." if isinstance(error, PermissionError) else ""
        raise BadUse(f"Cannot read {path}: {error.strerror}.{hint}") from None
    if len(content) > _MAX_BYTES:
        raise BadUse(f"{path} has more than {_MAX_BYTES:,} bytes: is it a file of settings?")
    try:
        return parse_env_file(content.decode())
    except UnicodeDecodeError:
        raise BadUse(f"{path} is not UTF-8 text.") from None


def parse_env_file(text: str) -> dict[str, str]:
    """The variables of a text. As systemd does it, an entry with an invalid name is ignored, and
    the last entry with a name counts."""
    variables = {}
    at = 0
    while at < len(text):
        if text[at] in _BLANK:
            at += 1
        elif text[at] in "#;":
            at = _line_end(text, at)
        else:
            end = _line_end(text, at)
            equals = text.find("=", at, end)
            if equals < 0:
                at = end
                continue
            name = text[at:equals].rstrip(_BLANK)
            value, at = _value(text, equals + 1)
            if _NAME.fullmatch(name):
                variables[name] = value
    return variables


def _line_end(text: str, at: int) -> int:
    while at < len(text) and text[at] not in _END:
        at += 1
    return at


def _value(text: str, at: int) -> tuple[str, int]:
    """The value that begins there, and the position after it."""
    value = ""
    kept = 0  # length of the value with the blanks that are quoted or escaped
    is_at_start = True  # or after a quoted part: blanks there do not count, and a quote begins one
    while at < len(text) and text[at] not in _END:
        character = text[at]
        at += 1
        if is_at_start and character in "'\"":
            part, at = _quoted(text, at, character)
            value += part
            kept = len(value)
        elif character == "\\":
            if at < len(text):
                if text[at] not in _END:
                    value += text[at]
                    kept = len(value)
                at += 1
            is_at_start = False
        elif not is_at_start or character not in _BLANK:
            value += character
            is_at_start = False
            if character not in _BLANK:
                kept = len(value)
    return value[:kept], at


def _quoted(text: str, at: int, quote: str) -> tuple[str, int]:
    value = ""
    while at < len(text) and text[at] != quote:
        character = text[at]
        at += 1
        if quote == '"' and character == "\\" and at < len(text):
            if text[at] in _ESCAPED_IN_QUOTES:
                value += text[at]
            elif text[at] != "\n":
                value += character + text[at]
            at += 1
        else:
            value += character
    return value, at + 1


def format_env_file(variables: Mapping[str, str]) -> str:
    """The text of a file with these variables, each in double quotes. Shells can read it, too."""
    lines = []
    for name, value in variables.items():
        escaped = "".join(f"\\{c}" if c in _ESCAPED_IN_QUOTES else c for c in value)
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines)
