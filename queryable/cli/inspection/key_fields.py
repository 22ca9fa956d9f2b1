"""Infers the fields that name a key, if keys are JSON objects, as Connect writes them."""

from __future__ import annotations

from collections.abc import Sequence

from model.formats.json import JsonCodec
from model.keys.codec import MAX_FIELDS, KeyFields, payload_of


def infer_key_fields(keys: Sequence[bytes]) -> tuple[str, ...]:
    """The names, in the order of the first key; empty if the keys differ in them, or if a field is
    no single value."""
    try:
        names = tuple(payload_of(keys[0]))
        codec = KeyFields(JsonCodec(), names)
        for key in keys:
            codec.check(key)
            if payload_of(key).keys() != {*names}:
                return ()
    except (ValueError, IndexError):
        return ()
    return names if 1 <= len(names) <= MAX_FIELDS else ()
