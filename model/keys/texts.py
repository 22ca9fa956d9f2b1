"""The text of a key with several values: `10,2`.

| value            | text                                                              |
|------------------|-------------------------------------------------------------------|
| text             | the same, or a JSON string unless `_is_bare`; both are read        |
| number, boolean  | as in JSON: a number and a text that reads like it are the same    |
| null             | `null`                                                             |
"""

from __future__ import annotations

import json

Value = str | None
"""The text of one field; None is null."""

_scan_string = json.JSONDecoder().raw_decode


def text_of(values: tuple[Value, ...]) -> str:
    """The text that `values_of` reads."""
    is_only = len(values) == 1
    return ",".join(
        "null" if value is None else value if _is_bare(value, is_only) else _quoted(value)
        for value in values
    )


def values_of(text: str, count: int) -> tuple[Value, ...]:
    """The values in the text of a key with `count` fields, or of its leading ones. Raises
    ValueError."""
    values: list[Value] = []
    position = 0
    while True:
        value, position = _value_at(text, position, is_only=count == 1)
        values.append(value)
        if position == len(text):
            break
        position += 1  # the comma
    if len(values) > count:
        raise ValueError(f"{len(values)} values for {count} fields: put text with commas in quotes")
    return tuple(values)


def _is_bare(text: str, is_only: bool) -> bool:
    """Whether a text is written without quotes: it is not read as another value, and it can stand
    in the path of a URL."""
    return (
        text not in ("", "null")
        and not text.startswith('"')
        and (is_only or "," not in text)
        and text.isprintable()
        and not {".", ".."} & set(text.split("/"))
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("/", "\\/")


def _value_at(text: str, position: int, *, is_only: bool) -> tuple[Value, int]:
    """The value that starts at `at`, and the position of the comma after it or of the end."""
    if text.startswith('"', position):
        try:
            value, end = _scan_string(text, position)
        except ValueError:
            raise ValueError(f"not a JSON string: {text[position : position + 40]}") from None
        if end < len(text) and text[end] != ",":
            raise ValueError(f"text after the JSON string: {text[end : end + 40]}")
        return utf8(value), end
    end = -1 if is_only else text.find(",", position)
    end = len(text) if end < 0 else end
    bare = text[position:end]
    if not bare:
        raise ValueError('an empty value: write "" for an empty text')
    return None if bare == "null" else bare, end


def utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair, which UTF-8 does not have") from None
    return text
