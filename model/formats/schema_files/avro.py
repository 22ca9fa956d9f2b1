"""Puts the types of other schemas into a schema, so that one file is enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from model.formats.avro.parsing import (
    MAX_DEPTH,
    PRIMITIVES,
    named_types,
    names_of,
    parse_all,
    schema_json,
)

_NAMED = ("record", "error", "enum", "fixed")
Definitions = dict[str, tuple[dict[str, Any], str]]
"""Full name ► the definition of a type, and the namespace of the names within it."""


def self_contained(text: str, references: Sequence[str]) -> Any:
    """The schema as a JSON document. Types of `references`, the schemas that it uses in dependency
    order, are defined where they are first used. Raises ValueError."""
    try:
        parse_all(text, references)
    except (KeyError, TypeError) as e:
        raise ValueError(f"not a supported Avro schema: {type(e).__name__}: {e}") from None
    document = schema_json(text)
    if not references:
        return document
    definitions: Definitions = {}
    for reference in references:
        _collect(schema_json(reference), "", definitions)
    return _Bundle(document, definitions).node(document, "", 0)


def _collect(node: Any, namespace: str, definitions: Definitions) -> None:
    if isinstance(node, list):
        for branch in node:
            _collect(branch, namespace, definitions)
    if not isinstance(node, dict):
        return
    if node.get("type") in _NAMED:
        name, namespace = names_of(node, namespace)
        definitions.setdefault(name, (node, namespace))
    for part in ("type", "items", "values"):
        _collect(node.get(part), namespace, definitions)
    for field in node.get("fields") or ():
        _collect(field.get("type"), namespace, definitions)


class _Bundle:
    """Rewrites a schema; see ``self_contained``."""

    def __init__(self, document: Any, definitions: Definitions) -> None:
        own = set(named_types(document))
        self._known = {*own, *definitions}
        self._definitions = {name: definitions[name] for name in definitions.keys() - own}
        self._placed: set[str] = set()

    def node(self, node: Any, namespace: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} levels")
        if isinstance(node, list):
            return [self.node(branch, namespace, depth + 1) for branch in node]
        if isinstance(node, str):
            return self._reference(node, namespace, depth)
        if not isinstance(node, dict):
            return node
        written = dict(node)
        if node["type"] in _NAMED:
            name, namespace = names_of(node, namespace)
            if name in self._placed:
                return name
            self._placed.add(name)
        else:
            written["type"] = self.node(node["type"], namespace, depth + 1)
        for part in ("items", "values"):
            if part in node:
                written[part] = self.node(node[part], namespace, depth + 1)
        if "fields" in node:
            written["fields"] = [
                {**field, "type": self.node(field["type"], namespace, depth + 1)}
                for field in node["fields"]
            ]
        return written

    def _reference(self, name: str, namespace: str, depth: int) -> Any:
        """The definition of a type at its first use, and its name at later uses."""
        if name in PRIMITIVES or name in ("array", "map"):
            return name
        qualified = f"{namespace}.{name}"
        full = qualified if "." not in name and qualified in self._known else name
        if full in self._placed or full not in self._definitions:
            return full
        definition, inner = self._definitions[full]
        # its names must not be those of the namespace around it
        placed = {**definition, "name": full.rpartition(".")[2], "namespace": inner}
        return self.node(placed, "", depth + 1)
