"""Fills in what depends on the views. `base.yaml` explains the `x-` keys and `${…}`."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from backend.http.openapi.skeleton import Json, skeleton
from model.formats.codec import Codec
from model.formats.registry import FORMATS
from model.kinds.kind import Kind
from model.views import View

Condition = Mapping[str, Sequence[Any]]
"""Field of a view -> the allowed values of the field."""

_PART = "#/x-parts/"
_VALUE = re.compile(r"\$\{(\w+)\}")
_LEFT_OUT = object()


def matches(view: View, condition: Condition) -> bool:
    """Whether the view meets the condition. Values of `store` are kinds of stores, and groups of
    queries that stores answer: see `_groups`. Values of `key` and `value` are abilities of formats:
    see `_abilities`."""
    groups = {
        "store": lambda: _groups(view.kind),
        "key": lambda: _abilities(view.key_codec),
        "value": lambda: _abilities(view.value_codec),
    }
    return all(
        not groups[field]().isdisjoint(allowed)
        if field in groups
        else getattr(view, field) in allowed
        for field, allowed in condition.items()
    )


def _abilities(codec: Codec) -> set[str]:
    """The abilities of a format."""
    abilities = {
        "number": codec.is_number,
        "document": codec.is_document,
        "json": codec.is_json,
        "prefix": codec.has_prefixes,
        "schema": codec.representation is not None,
    }
    return {name for name, is_so in abilities.items() if is_so}


def _groups(kind: Kind) -> set[str]:
    """The kind's name, and the groups of queries that it answers."""
    groups = {
        "point": kind.has_points,
        "table": kind.resource == "keys",  # one value a key, in a listing of keys
        "stored": kind.resource is not None,
        "changes": kind.has_changes,
    }
    return {kind.name, kind.history or "", *(name for name, is_so in groups.items() if is_so)}


class _NoExampleError(Exception):
    """These views have no value for an example."""


class Filler:
    """Fills in nodes of the skeleton for one or more views. Examples are for the first view."""

    def __init__(self, views: Sequence[View], constants: Json) -> None:
        self._views = views
        self._parts: Json = skeleton()["x-parts"]
        self._header_groups: Json = skeleton()["x-header-groups"]
        self._values = {**constants, **_values(views)}
        self._media_types = {
            "x-representations": sorted(
                {f"application/{name}" for v in views if (name := v.value_codec.representation)}
            ),
            "x-key-types": [f.media_types[0] for f in FORMATS.values() if f.media_types],
        }

    def fill(self, node: Any) -> Any:
        """A copy of a node of the skeleton as it is in the document."""
        if isinstance(node, str):
            return self._text(node)
        if isinstance(node, list):
            return [filled for item in node if (filled := self.fill(item)) is not _LEFT_OUT]
        if not isinstance(node, dict):
            return node
        if not self._applies(node):
            return _LEFT_OUT
        if str(node.get("$ref")).startswith(_PART):
            part = self._parts[node["$ref"].removeprefix(_PART)]
            return self.fill({**part, **{k: v for k, v in node.items() if k != "$ref"}})
        for name, types in self._media_types.items():
            if name in node:
                node = {**node, **dict.fromkeys(types, node[name])}
        if "x-headers" in node:
            node = {**node, "headers": self._headers(node)}
        return {
            name: filled
            for name, value in node.items()
            if not name.startswith("x-") and (filled := self._field(name, value)) is not _LEFT_OUT
        }

    def _field(self, name: str, node: Any) -> Any:
        if name != "examples":
            return self.fill(node)
        examples = {}
        for status, example in node.items():
            try:
                examples[status] = self.fill(example)
            except _NoExampleError:
                continue
        return {k: v for k, v in examples.items() if v is not _LEFT_OUT} or _LEFT_OUT

    def _applies(self, node: Json) -> bool:
        def matching(name: str) -> list[bool]:
            return [matches(view, node[name]) for view in self._views]

        return (
            ("x-if-any-view" not in node or any(matching("x-if-any-view")))
            and ("x-if-no-view" not in node or not any(matching("x-if-no-view")))
            and ("x-if-first-view" not in node or matching("x-if-first-view")[0])
        )

    def _headers(self, response: Json) -> Json:
        names = [
            name
            for group in response["x-headers"]
            for name in self._header_groups.get(group, (group,))
        ]
        headers = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        return {**headers, **response.get("headers", {})}

    def _text(self, text: str) -> Any:
        whole = _VALUE.fullmatch(text)
        return self._value(whole) if whole else _VALUE.sub(lambda m: str(self._value(m)), text)

    def _value(self, name: re.Match[str]) -> Any:
        value = self._values[name[1]]
        if value is None:
            raise _NoExampleError
        return value


def _values(views: Sequence[View]) -> Json:
    """The values of `${…}`. A value is None if these views have no example for it."""
    formats: Json = skeleton()["x-formats"]
    first = views[0]
    key = formats.get(first.key, {})
    example = key.get("example")
    values = {
        "views": [view.name for view in views],
        "first_view": first.name,
        "view_meanings": "".join(f"; {v.name}: {v.meaning}" for v in views if v.meaning),
        "topics": sorted({view.topic for view in views}),
        "first_topic": first.topic,
        "key": example,
        "json_key": key.get("json_example", example),
        "base64_key": None,
        "key_serde": key.get("serde"),
        "value_serde": formats.get(first.value, {}).get("serde"),
        "key_schema": {"type": "string"},
    }
    if first.key_fields:
        named = ",".join("1" for _ in first.key_fields)
        values |= {"key": named, "json_key": named}
        values["base64_key"] = _base64(orjson.dumps(dict.fromkeys(first.key_fields, 1)))
    elif example is not None:
        values["base64_key"] = _base64(first.key_codec.from_text(str(example).encode()))
    if len({view.key for view in views}) == 1:
        values["key_schema"] = key.get("schema", {"type": "string"})
    return values


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
