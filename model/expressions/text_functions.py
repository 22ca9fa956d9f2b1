"""Functions of texts, lists and maps in Python."""

from __future__ import annotations

from collections.abc import Callable

from model.expressions.signatures.texts import MAX_REPLACED


def replace_function(old: str, new: str) -> Callable[[str], str | None]:
    added = len(new) - len(old)
    if added <= 0:
        return lambda text: text.replace(old, new)

    def replace(text: str) -> str | None:
        if len(text) + text.count(old) * added > MAX_REPLACED:
            return None
        return text.replace(old, new)

    return replace


def list_element(values: list[str] | list[int], number: int) -> str | int | None:
    """The element with this number, from 1."""
    return values[number - 1] if 1 <= number <= len(values) else None


def map_value(values: dict[str, str], name: str) -> str | None:
    return values.get(name)
