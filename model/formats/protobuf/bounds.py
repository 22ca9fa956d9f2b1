"""Bounds the size and depth of a message's JSON before it is made.

A few bytes can become much JSON: the JSON of an empty message of two bytes has all its fields
without presence, an enum of one byte has a long name, and an `Any` starts another parser, with a
limit of its own.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message_factory import GetMessageClass

MAX_DEPTH = 100
"""The maximum number of levels of messages, as in protobuf's parsers. Here, levels in an `Any`
count, too."""

MAX_JSON_BYTES = 4 << 20
"""The maximum size of a message's JSON without the content of its strings and bytes. The size is
estimated from above.

It bounds the time, too: json_format takes some 3 µs for each of at most 100,000 small messages."""

_ANY = "google.protobuf.Any"
_PUNCTUATION = 4  # quotes, colon and comma
_NUMBER = 26  # the longest: a double


class Bounds:
    """The bounds of messages whose types are in one pool."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._empty_sizes: dict[str, int] = {}  # of message types
        self._item_sizes: dict[str, int] = {}  # of scalar fields

    def check(self, message: Any) -> None:
        """Raises ValueError if the JSON of the message is too large or too deep."""
        self._spend(message, MAX_JSON_BYTES, MAX_DEPTH)

    def _spend(self, message: Any, remaining: int, levels: int) -> int:
        """Return how many of the `left` bytes remain after the message. Raises ValueError."""
        if levels == 0:
            raise ValueError(f"more than {MAX_DEPTH} levels")
        descriptor = message.DESCRIPTOR
        remaining -= self._empty_size(descriptor)
        for field, value in message.ListFields():
            name = field.full_name if field.is_extension else field.json_name
            remaining -= len(name) + _PUNCTUATION
            if is_map(field):
                value_field = field.message_type.fields_by_name["value"]
                remaining -= len(value) * (_NUMBER + _PUNCTUATION)
                if value_field.message_type is None:
                    remaining -= len(value) * self._item_size(value_field)
                else:
                    for key in value:
                        remaining = self._spend(value[key], remaining, levels - 1)
            elif field.message_type is None:
                remaining -= (len(value) if field.is_repeated else 1) * self._item_size(field)
            else:
                for submessage in value if field.is_repeated else (value,):
                    remaining = self._spend(submessage, remaining, levels - 1)
            if remaining < 0:
                raise ValueError(f"more than {MAX_JSON_BYTES >> 20} MiB as JSON")
        if remaining < 0:
            raise ValueError(f"more than {MAX_JSON_BYTES >> 20} MiB as JSON")
        if descriptor.full_name == _ANY and message.type_url:
            return self._spend(self._unpacked(message), remaining, levels - 1)
        return remaining

    def _unpacked(self, message: Any) -> Any:
        """The message in an `Any`."""
        name = message.type_url.split("/")[-1]
        try:
            unpacked = GetMessageClass(self._pool.FindMessageTypeByName(name))()
            unpacked.ParseFromString(message.value)
        except Exception as e:  # KeyError: the type is not in the schema; DecodeError
            raise ValueError(f"an Any of type {name[:100]}: {e}") from None
        return unpacked

    def _empty_size(self, descriptor: Any) -> int:
        """The size (bytes) of the JSON of a message without content."""
        size = self._empty_sizes.get(descriptor.full_name)
        if size is None:
            size = _PUNCTUATION + sum(
                len(field.json_name) + _PUNCTUATION + self._item_size(field)
                for field in descriptor.fields
                if not field.has_presence
            )
            self._empty_sizes[descriptor.full_name] = size
        return size

    def _item_size(self, field: Any) -> int:
        """The size (bytes) of one item of a field that is not a message, without the content of
        strings."""
        size = self._item_sizes.get(field.full_name)
        if size is None:
            values = () if field.enum_type is None else field.enum_type.values
            size = max([_NUMBER, *(len(value.name) + _PUNCTUATION for value in values)])
            self._item_sizes[field.full_name] = size
        return size


def is_map(field: Any) -> bool:
    """Whether a field of a message type is a map."""
    message_type = field.message_type
    return (
        message_type is not None
        and message_type.has_options
        and bool(message_type.GetOptions().map_entry)
    )
