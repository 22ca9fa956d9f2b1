"""Puts the documents that a JSON Schema uses into it, so that one file is enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.formats.format import References, parse_json

_PLACE = "definitions"


def self_contained(text: str, references: References) -> Any:
    """The schema as a JSON document. A document of `references` is a part of it, below its name.
    Raises ValueError."""
    document = parse_json(text)
    if not references or not isinstance(document, dict):
        return document
    places = {name: f"#/{_PLACE}/{_escaped(name)}" for name, _ in references}
    bundled: dict[str, Any] = _moved(document, "#", places)
    parts = {name: _moved(parse_json(used), places[name], places) for name, used in references}
    return {**bundled, _PLACE: {**bundled.get(_PLACE, {}), **parts}}


def _moved(node: Any, place: str, places: Mapping[str, str]) -> Any:
    """A part of a document, for its new `place`: references within the document begin there.
    `parse_json` bounds the depth."""
    if isinstance(node, list):
        return [_moved(item, place, places) for item in node]
    if not isinstance(node, dict):
        return node
    moved = {name: _moved(value, place, places) for name, value in node.items()}
    reference = node.get("$ref")
    if isinstance(reference, str):
        name, _, path = reference.partition("#")
        if not name:
            moved["$ref"] = place + path
        elif name in places:
            moved["$ref"] = places[name] + path
    return moved


def _escaped(name: str) -> str:
    """A name in a JSON Pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
