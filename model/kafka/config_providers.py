"""References to values that are not in views.toml, in the form of Kafka's config providers.

`${file:/path:key}`: a key of a properties file (Kafka's FileConfigProvider). `${file:/path}`: a
whole file, without a line break at its end; Kafka's DirectoryConfigProvider has this as
`${directory:/folder:name}`. `${env:NAME}`: an environment variable (EnvVarConfigProvider, KIP-887).
A reference may be a part of a value. Only the unresolved form is shown, logged and compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from model.problems import ConfigurationError

MAX_FILE_BYTES = 64 * 1024

OpenFile = Callable[[str, str], Any]
"""A function like `open`. The caller passes it in, because this module does no I/O."""

# Kafka's ConfigTransformer: a name, a colon, and no closing brace
_REFERENCE = re.compile(r"\$\{(?P<provider>[^:}]*):(?P<rest>[^}]*)}")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FORMS = "${file:/path:key}, ${file:/path} and ${env:NAME}"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Reference(NamedTuple):
    """`path` is None for an environment variable; `key` is None for a whole file."""

    path: str | None
    key: str | None


def has_reference(value: str) -> bool:
    return _REFERENCE.search(value) is not None


def map_references(name: str, value: str, replace: Callable[[Reference], str]) -> str:
    """The value with each reference replaced. Raises ConfigurationError, which names the setting,
    for a reference in another form."""
    return _REFERENCE.sub(lambda match: replace(_parse(name, match)), value)


def check_references(name: str, value: str) -> None:
    """Raise ConfigurationError for a reference in another form. Reads no values."""
    map_references(name, value, lambda _: "")


def resolve(
    table: Mapping[str, str], open_file: OpenFile, environment: Mapping[str, str]
) -> dict[str, str]:
    """The table `[kafka]` with all references replaced. Raises ConfigurationError, which names the
    setting and what is missing, and never a value."""
    return {
        name: resolve_value(f"[kafka] {name}", value, open_file, environment)
        for name, value in table.items()
    }


def resolve_value(
    name: str, value: str, open_file: OpenFile, environment: Mapping[str, str]
) -> str:
    """The value of one setting, like `resolve`."""

    def resolved(reference: Reference) -> str:
        return _value(name, reference, open_file, environment)

    return map_references(name, value, resolved)


def _parse(name: str, match: re.Match[str]) -> Reference:
    provider, rest = match["provider"], match["rest"]
    if provider == "env" and _ENVIRONMENT_NAME.fullmatch(rest):
        return Reference(None, rest)
    if provider == "file":
        path, colon, key = rest.partition(":")
        plain = rest.isprintable() and not {'"', "\\"} & set(rest)
        if path.startswith("/") and not path.endswith("/") and plain and bool(colon) == bool(key):
            return Reference(path, key or None)
    raise ConfigurationError(
        f"{name}: {match[0]} is not a known reference; allowed are {_FORMS}, with absolute paths"
    )


def _value(
    name: str, reference: Reference, open_file: OpenFile, environment: Mapping[str, str]
) -> str:
    path, key = reference
    if path is None:
        value = environment.get(key or "")
        if not value:
            raise ConfigurationError(f"{name}: the environment variable {key} is not set")
        return value
    try:
        with open_file(path, "rb") as file:
            content: bytes = file.read(MAX_FILE_BYTES + 1)
    except OSError as e:
        raise ConfigurationError(f"{name}: cannot read {path}: {e.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{name}: {path} has more than {MAX_FILE_BYTES} bytes")
    try:
        text = content.decode()
        if key is None:
            value = text.removesuffix("\n").removesuffix("\r")
        else:
            value = parse_properties(text).get(key, "")
    except ValueError:
        # not the original error, because it may quote the file
        raise ConfigurationError(f"{name}: {path} is not a text or properties file") from None
    if not value:
        problem = f"{path} is empty" if key is None else f"{path} has no value for {key}"
        raise ConfigurationError(f"{name}: {problem}")
    return value


def parse_properties(text: str) -> dict[str, str]:
    """The entries of a properties file, as `java.util.Properties.load` reads them. Raises
    ValueError."""
    return dict(map(_parse_entry, _logical_lines(text)))


def _logical_lines(text: str) -> list[str]:
    """The lines without comments and empty lines. A line that ends with a backslash is joined with
    the next one."""
    lines: list[str] = []
    is_continued = False
    for line in re.split(r"\r\n|\n|\r", text):
        line = line.lstrip(" \t\f")
        if not is_continued:
            if not line or line[0] in "#!":
                continue
            lines.append("")
        backslashes = len(line) - len(line.rstrip("\\"))
        is_continued = backslashes % 2 == 1
        lines[-1] += line[:-1] if is_continued else line
    return lines


def _parse_entry(line: str) -> tuple[str, str]:
    """The key ends at the first unescaped white space, `=` or `:`."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(" \t\f")
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(" \t\f")
    return _unescape(line[:end]), _unescape(value)


def _unescape(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped.startswith("u"):
            return chr(int(escaped[1:], 16))  # ValueError if it is not \uXXXX
        return _ESCAPES.get(escaped, escaped)

    unescaped = re.sub(r"\\(u[0-9A-Fa-f]{4}|.|$)", char, text, flags=re.DOTALL)
    # \uXXXX are UTF-16 code units
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")
