"""Parses the topics and fields of ``[views.NAME.derive]``."""

from __future__ import annotations

import re
from typing import Any

from model.derive.derivation import RECORD_FIELDS
from model.derive.expressions import Field
from model.derive.reading import TableError, check_new, read_table, read_text
from model.derive.types import parse_field_type

MAX_FIELDS = 200
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def parse_topic(value: Any, path: tuple[str, ...]) -> str:
    """Raises TableError."""
    topic = read_text(value, path, "a topic")
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise TableError(path, f'"{topic[:60]}" is not a valid topic name')
    return topic


def parse_fields(value: Any, path: tuple[str, ...]) -> dict[str, Field]:
    """The declared fields of a JSON value. Raises TableError."""
    given = read_table(value, path, MAX_FIELDS, 'fields = { name = "string" }')
    fields = {}
    for name, text in given.items():
        check_new(name, RECORD_FIELDS, (*path, name))
        text = read_text(text, (*path, name), 'a type such as "string" or "int?"')
        try:
            fields[name] = Field(name, parse_field_type(text))
        except ValueError as e:
            raise TableError((*path, name), str(e)) from None
    return fields
