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
_SPACE = re.compile(r"[ \t]*(#[^\n]*)?")
_PART = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*""")
# What a value consists of. Brackets and braces may contain further lines.
_PIECE = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|"
    r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[\[{]|[\]}]|\n|[^"'#\[\]{}\n]+""",
    re.DOTALL,
)


def toml_key(name: str) -> str:
    """A name as it is written in the name of a table: quoted if necessary."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


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

    def error(self, table: Path, field: str | None, what: str) -> ConfigurationError:
        return self.error_at(table, (field,) if field else (), what)

    def error_at(self, table: Path, path: Path, what: str) -> ConfigurationError:
        """``path``: the names of a key in or below the table."""
        line = line_of(self._lines, (*table, *path))
        names = "".join(f", {name}" for name in [".".join(path)] if name)
        return ConfigurationError(
            f"{self._source}, line {line}, {table_name(*table)}{names}: {what}"
        )


def lines_of(text: str) -> dict[Path, int]:
    """The line (from 1) of each table and key of a document that tomllib accepts. Keys of inline
    tables are omitted: they are in the line of their table."""
    found: dict[Path, int] = {}
    table: Path = ()
    at = 0
    line = 1
    while at < len(text):
        at = _end(_SPACE, text, at)
        if text.startswith(("\n", "\r\n"), at):
            at = text.index("\n", at) + 1
            line += 1
            continue
        if at == len(text):
            break
        if text[at] == "[":
            table, at = _names(text, at + 1 + text.startswith("[[", at))
            _add(found, table, 0, line)
            at = text.find("\n", at)  # the rest is "]" and a comment
            if at < 0:
                break
            continue
        key, at = _names(text, at)
        _add(found, table + key, len(table), line)
        end = _end_of_value(text, at + 1)
        line += text.count("\n", at, end)
        at = end
    return found


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of the path, or of the nearest table that contains it; 1 if there is none."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def _add(found: dict[Path, int], path: Path, known: int, line: int) -> None:
    """Add a path and its parents. ``known``: how many leading names of the path name its table."""
    for length in range(known + 1, len(path) + 1):
        found.setdefault(path[:length], line)
    # A table may have been found above as the parent of another one.
    if known == 0:
        found[path] = line


def _names(text: str, at: int) -> tuple[Path, int]:
    """The names of a dotted key, and the position after it."""
    names: list[str] = []
    while True:
        part = _PART.match(text, at)
        if part is None:
            return tuple(names), at
        names.append(_unquoted(part[1]))
        at = part.end()
        if not text.startswith(".", at):
            return tuple(names), at
        at += 1


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    value: str = tomllib.loads(f"value = {part}")["value"]
    return value


def _end_of_value(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return len(text)
        if piece[0] == "\n" and depth == 0:
            return at
        depth += (piece[0] in ("[", "{")) - (piece[0] in ("]", "}"))
        at = piece.end()
    return at


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
