"""Self-contained schemas in the form that fastavro needs for reading, and their canonical form."""

from __future__ import annotations

from typing import Any

from fastavro import parse_schema

from model.formats.avro.parsing import PRIMITIVES
from model.formats.avro.texts import PREFIX

FIELD = "v"
"""The field of the record around a schema: fastavro keeps what it has parsed in a record."""


def compiled(root: Any) -> dict[str, Any]:
    """A record with one field, which has the same bytes as the field.

    fastavro refuses some symbols that other libraries write, but it reads them. It also reads a
    name without a namespace as a name in the enclosing namespace.
    """
    enums: dict[str, dict[str, Any]] = {}
    fields = [{"name": FIELD, "type": _accepted(root, enums)}]
    parsed: Any = parse_schema({"type": "record", "name": f"{PREFIX}root", "fields": fields})
    for name, written in enums.items():
        parsed["__named_schemas"][name] |= written
    return parsed  # type: ignore[no-any-return]


def _accepted(node: Any, enums: dict[str, dict[str, Any]]) -> Any:
    if isinstance(node, list):
        return [_accepted(branch, enums) for branch in node]
    if isinstance(node, str):
        return node if node in PRIMITIVES or "." in node else _in_namespace(node)
    accepted = dict(node)
    for inner in ("items", "values"):
        if inner in node:
            accepted[inner] = _accepted(node[inner], enums)
    if "name" in node:
        accepted["name"] = node["name"] if "." in node["name"] else _in_namespace(node["name"])
    if "fields" in node:
        accepted["fields"] = [
            {**field, "type": _accepted(field["type"], enums)} for field in node["fields"]
        ]
    if node["type"] == "enum":
        written = {"symbols", "default"} & node.keys()
        enums[accepted["name"]] = {name: accepted.pop(name) for name in written}
        accepted["symbols"] = [f"S{index}" for index, _ in enumerate(node["symbols"])]
    return accepted


def _in_namespace(name: str) -> str:
    return f"{PREFIX}none.{name}"


def canonical(node: Any) -> str:
    """The parsing canonical form, as Avro's specification defines it."""
    if isinstance(node, list):
        return f"[{','.join(map(canonical, node))}]"
    if isinstance(node, str):
        return f'"{node}"'
    kind = node["type"]
    if "items" in node:
        return f'{{"type":"array","items":{canonical(node["items"])}}}'
    if "values" in node:
        return f'{{"type":"map","values":{canonical(node["values"])}}}'
    if "name" not in node:
        return f'"{kind}"'
    if kind == "fixed":
        return f'{{"name":"{node["name"]}","type":"fixed","size":{node["size"]}}}'
    if kind == "enum":
        symbols = ",".join(f'"{symbol}"' for symbol in node["symbols"])
        return f'{{"name":"{node["name"]}","type":"enum","symbols":[{symbols}]}}'
    fields = ",".join(
        f'{{"name":"{field["name"]}","type":{canonical(field["type"])}}}'
        for field in node["fields"]
    )
    return f'{{"name":"{node["name"]}","type":"record","fields":[{fields}]}}'
