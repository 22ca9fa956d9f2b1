"""An OpenAPI document as a page of Markdown: each operation with its parameters and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

_METHODS = ("get", "head", "post", "put", "patch", "delete")
_TITLES = {"keys": "One key", "views": "A whole view", "kiqr": "KIQR's dialect"}
_HEAD = """\
# API

What `GET /openapi.json` says of the views of [the examples](../queries/README.md#the-examples).
A deployment describes its own views. The short path of a view, such as `/messages/{key}`, takes the
place of `/views/{view}/keys/{key}`. [Requests and headers](requests.md) is an overview.
"""


def page(document: Json) -> str:
    """The page; ValueError if the document refers to something that it does not have."""
    sections: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        methods = [method for method in _METHODS if method in item]
        if not methods:
            continue
        # the operations of one path differ in their bodies, and in what follows from these
        operations = [item[method] for method in methods]
        operation = operations[0]
        [tag, *_] = operation.get("tags") or ["others"]
        names = ", ".join(method.upper() for method in methods)
        lines = [f"### {names} `{path}`", "", f"{_sentence(operation.get('summary', ''))}", ""]
        lines += _parameters(document, operation)
        lines += next(filter(None, map(_body, operations)), [])
        lines += _responses(document, operations)
        sections.setdefault(tag, []).append("\n".join(lines))
    return "\n".join([_HEAD, *_of_tags(sections)])


def _of_tags(sections: Mapping[str, list[str]]) -> Iterator[str]:
    for tag, operations in sections.items():
        yield f"## {_TITLES.get(tag, tag.capitalize())}\n"
        yield from operations


def _parameters(document: Json, operation: Json) -> list[str]:
    given = [_resolved(document, each) for each in operation.get("parameters", ())]
    rows = [
        (
            f"`{each['name']}`",
            each["in"] if not each.get("required") else f"{each['in']}, required",
            "" if each["in"] == "path" else _values(each.get("schema", {})),
            each.get("description", ""),
        )
        for each in given
    ]
    return _table(("parameter", "in", "values", "meaning"), rows)


def _body(operation: Json) -> list[str]:
    body = operation.get("requestBody", {}).get("content", {})
    return [f"Body: {', '.join(f'`{name}`' for name in body)}.", ""] if body else []


def _responses(document: Json, operations: Sequence[Json]) -> list[str]:
    rows = []
    responses: dict[str, Json] = {}
    for operation in reversed(operations):
        responses |= operation["responses"]
    for status, response in sorted(responses.items()):
        answer = _resolved(document, response)
        content = ", ".join(f"`{name}`" for name in answer.get("content", ()))
        headers = ", ".join(f"`{name}`" for name in answer.get("headers", ()))
        rows.append((f"{status}", answer.get("description", ""), content, headers))
    return _table(("status", "meaning", "body", "headers"), rows)


def _values(schema: Json) -> str:
    """What a parameter may be, in a few words."""
    text = ", ".join(f"`{each}`" for each in schema["enum"]) if "enum" in schema else None
    text = text or str(schema.get("type", "")).replace("boolean", "`true`, `false`")
    if "minimum" in schema and "maximum" in schema and schema.get("format") != "int64":
        text += f" from {schema['minimum']} to {schema['maximum']}"
    return f"{text}; default `{schema['default']}`" if "default" in schema else text


def _resolved(document: Json, value: Json) -> Json:
    """The value, or what its `$ref` refers to."""
    if "$ref" not in value:
        return value
    found: Any = document
    for name in value["$ref"].removeprefix("#/").split("/"):
        if name not in found:
            raise ValueError(f"the document has no {value['$ref']}")
        found = found[name]
    return _resolved(document, found)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Without the columns that are empty in each row; nothing without rows."""
    used = [n for n, _ in enumerate(header) if any(row[n] for row in rows)]
    if not used:
        return []
    shown = [[header[n] for n in used], ["---"] * len(used)]
    shown += [[_cell(row[n]) for n in used] for row in rows]
    return [*(f"| {' | '.join(cells)} |" for cells in shown), ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _sentence(text: str) -> str:
    text = " ".join(text.split()).replace("<", "&lt;")
    return text if not text or text.endswith(".") else f"{text}."
