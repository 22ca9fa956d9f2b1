"""Parses the topics and fields of ``[views.NAME.derive]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from model.derive.derivation import RECORD_FIELDS
from model.derive.reading import TableError, check_keys, check_new, read_table, read_text
from model.expressions.tree import Field
from model.expressions.types import COLLECTIONS, Kind, Objects, parse_field_type

MAX_FIELDS = 200
MAX_PATH = 16

Paths = tuple[tuple[str, tuple[str, ...]], ...]
"""Name of a field ► the names of the members that lead to it."""

_OBJECTS = 'items = { type = "objects", fields = { sku = "string", qty = "int" } }'

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def parse_topic(value: Any, path: tuple[str, ...]) -> str:
    """The name of a topic. Raises TableError."""
    topic = read_text(value, path, "a topic")
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise TableError(path, f'"{topic[:60]}" is not a valid topic name')
    return topic


def parse_fields(value: Any, path: tuple[str, ...]) -> dict[str, Field]:
    """The declared fields of a JSON value. Raises TableError."""
    declared = read_table(value, path, MAX_FIELDS, 'fields = { name = "string" }')
    fields = {}
    for name, text in declared.items():
        check_new(name, RECORD_FIELDS, (*path, name))
        if isinstance(text, dict) and "fields" in text:
            fields[name] = Field(name, _objects(text, (*path, name)))
            continue
        if isinstance(text, dict):
            check_keys(text, ("path", "type", "fields"), (*path, name))
            text = text.get("type")
        if text in ("objects", "objects?"):
            raise TableError((*path, name), f"needs the fields of an object: {_OBJECTS}")
        text = read_text(text, (*path, name), 'a type such as "string" or "int?"')
        try:
            fields[name] = Field(name, parse_field_type(text))
        except ValueError as e:
            raise TableError((*path, name), str(e)) from None
    return fields


def _objects(declared: dict[str, Any], path: tuple[str, ...]) -> Objects:
    """The type of a list of objects. Raises TableError."""
    check_keys(declared, ("path", "type", "fields"), path)
    type_ = declared.get("type", "objects")
    if type_ not in ("objects", "objects?"):
        raise TableError((*path, "type"), f'must be "objects" with fields: {_OBJECTS}')
    members = parse_fields(declared["fields"], (*path, "fields"))
    for name, member in members.items():
        if member.type.kind in COLLECTIONS or isinstance(declared["fields"][name], dict):
            raise TableError((*path, "fields", name), 'must be a type such as "string" or "int?"')
    types = tuple((name, member.type) for name, member in members.items())
    return Objects(Kind.OBJECTS, type_.endswith("?"), members=types)


def parse_paths(value: Mapping[str, Any], path: tuple[str, ...]) -> Paths:
    """The paths of the fields that have one: ``"after.id"``, or a list of names if a name has a
    dot. Raises TableError."""
    paths = []
    for name, declared in value.items():
        if not isinstance(declared, dict) or ("fields" in declared and "path" not in declared):
            continue
        where = (*path, name, "path")
        names = declared.get("path")
        if isinstance(names, str):
            names = names.split(".")
        if (
            not isinstance(names, list)
            or not 1 <= len(names) <= MAX_PATH
            or not all(isinstance(member, str) and member for member in names)
        ):
            raise TableError(
                where, f'must be names with dots, "after.id", or a list of up to {MAX_PATH} names'
            )
        paths.append((name, tuple(names)))
    return tuple(paths)
