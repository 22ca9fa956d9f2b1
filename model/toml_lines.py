"""The lines of tables and keys in a TOML document, which tomllib does not report."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping

from model.problems import ConfigurationError

Path = tuple[str, ...]
"""The names of nested tables, and of a key: ``("views", "orders", "topic")``."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_DELETE_AND_C1 = re.compile("[\x7f-\x9f]")
_SPACE = re.compile(r"[ \t]*(#[^\n]*)?")
_PART = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*""")
# What a value consists of. Brackets and braces may contain further lines.
_PIECE = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|"
    r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[\[{]|[\]}]|\n|[^"'#\[\]{}\n]+""",
    re.DOTALL,
)


def toml_key(name: str) -> str:
    """A name as it is written in the name of a table: quoted if necessary, and without control
    characters."""
    if _BARE_KEY.fullmatch(name):
        return name
    quoted = json.dumps(name, ensure_ascii=False)
    # JSON does not escape these, and TOML does not allow the first
    return _DELETE_AND_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def table_name(*names: str) -> str:
    """The line that begins a table: `[views."init.orders"]`."""
    return f"[{'.'.join(map(toml_key, names))}]"


def view_table(name: str) -> str:
    """The line that begins the table of a view."""
    return table_name("views", name)


class TomlErrors:
    """Makes errors with the line of a key. ``source``: the name of the file."""

    def __init__(self, text: str, source: str) -> None:
        self._lines = lines_of(text)
        self._source = source

    def error(self, table: Path, field: str | None, message: str) -> ConfigurationError:
        return self.error_at(table, (field,) if field else (), message)

    def error_at(self, table: Path, path: Path, message: str) -> ConfigurationError:
        """``path``: the names of a key in or below the table."""
        line = line_of(self._lines, (*table, *path))
        names = "".join(f", {name}" for name in [".".join(path)] if name)
        return ConfigurationError(
            f"{self._source}, line {line}, {table_name(*table)}{names}: {message}"
        )


def lines_of(text: str) -> dict[Path, int]:
    """The line (from 1) of each table and key of a document that tomllib accepts. Keys of inline
    tables are omitted: they are in the line of their table."""
    lines: dict[Path, int] = {}
    table: Path = ()
    position = 0
    line = 1
    while position < len(text):
        position = _end(_SPACE, text, position)
        if text.startswith(("\n", "\r\n"), position):
            position = text.index("\n", position) + 1
            line += 1
            continue
        if position == len(text):
            break
        if text[position] == "[":
            table, position = _names(text, position + 1 + text.startswith("[[", position))
            _add(lines, table, 0, line)
            position = text.find("\n", position)  # the rest is "]" and a comment
            if position < 0:
                break
            continue
        key, position = _names(text, position)
        _add(lines, table + key, len(table), line)
        end = _end_of_value(text, position + 1)
        line += text.count("\n", position, end)
        position = end
    return lines


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of the path, or of the nearest table that contains it; 1 if there is none."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def _add(lines: dict[Path, int], path: Path, table_length: int, line: int) -> None:
    """Add a path and its parents. ``known``: how many leading names of the path name its table."""
    for length in range(table_length + 1, len(path) + 1):
        lines.setdefault(path[:length], line)
    # A table may have been found above as the parent of another one.
    if table_length == 0:
        lines[path] = line


def _names(text: str, position: int) -> tuple[Path, int]:
    """The names of a dotted key, and the position after it."""
    names: list[str] = []
    while True:
        part = _PART.match(text, position)
        if part is None:
            return tuple(names), position
        names.append(_unquoted(part[1]))
        position = part.end()
        if not text.startswith(".", position):
            return tuple(names), position
        position += 1


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    value: str = tomllib.loads(f"value = {part}")["value"]
    return value


def _end_of_value(text: str, position: int) -> int:
    depth = 0
    while position < len(text):
        piece = _PIECE.match(text, position)
        if piece is None:
            return len(text)
        if piece[0] == "\n" and depth == 0:
            return position
        depth += (piece[0] in ("[", "{")) - (piece[0] in ("]", "}"))
        position = piece.end()
    return position


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return position if match is None else match.end()
