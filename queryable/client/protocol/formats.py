"""Keys and values as Python values. docs/client.md has the types of each format, and the module of
the format in `model.formats` has the functions that convert them.

`Raw(b"…")` gives a key by its record bytes, in any format. Keys that are documents may need it,
because one document can be written in several ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from model.formats import registry
from model.formats.base64url import to_base64url
from model.formats.codec import Codec
from model.formats.format import PythonForm
from model.formats.listed_keys import bytes_in
from model.keys.codec import KEY_FIELDS
from queryable.client.protocol.errors import BadUse

# HTTP clients and proxies resolve or drop these parts of a path, nginx also within a key
_RESOLVED_PARTS = {b".", b".."}


def _is_path_segment(text: bytes) -> bool:
    return text != b"" and b"\0" not in text and _RESOLVED_PARTS.isdisjoint(text.split(b"/"))


@dataclass(frozen=True, slots=True)
class Raw:
    """A key, as its record bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Format:
    """One format: `python` converts its values, and this class adds errors and URLs."""

    name: str
    python: PythonForm
    codec: Codec | None = None
    """None if it depends on a schema, or on a class of the deployment."""

    @property
    def has_prefixes(self) -> bool:
        return self.python.has_prefixes or (self.codec is not None and self.codec.has_prefixes)

    def check(self, value: Any) -> None:
        """Raises BadUse unless the value has a type of this format."""
        types = self.python.types
        if not types:
            return
        # bool is a subclass of int
        if isinstance(value, bool) or not isinstance(value, types):
            expected = " or ".join(kind.__name__ for kind in types)
            raise BadUse(f"{value!r} is not a valid {self.name}: expected {expected}.")

    def record_bytes(self, value: Any) -> bytes | None:
        """A key as in its Kafka record; None if this requires a schema. Raises BadUse."""
        if isinstance(value, Raw):
            return value.data
        text = self._convert(self.python.to_text, value)
        if self.codec is None:
            return None
        try:
            return self.codec.from_text(text)
        except ValueError as e:
            raise BadUse(f"{value!r} is not a valid {self.name}: {e}.") from None

    def _convert(self, conversion: Callable[[Any], bytes], value: Any) -> bytes:
        self.check(value)
        try:
            return conversion(value)
        except (OverflowError, ValueError) as e:
            raise BadUse(f"{value!r} is not a valid {self.name}: {e}.") from None

    def from_json(self, document: Any) -> Any:
        return self.python.from_json(document)

    def key_from_json(self, document: Any) -> Any:
        """A key from an answer, as a value that finds the same key in a request."""
        if self.python.lists_bytes and (raw := bytes_in(document)) is not None:
            return Raw(raw)
        return (self.python.key_from_json or self.python.from_json)(document)

    def parameter(self, value: Any) -> str:
        """The value in a query string, percent-encoded. Raises BadUse."""
        return quote(self._convert(self.python.to_text, value), safe="")

    def json_bytes(self, value: Any) -> bytes:
        """The value as a JSON document. Raises BadUse."""
        return self._convert(self.python.to_json, value)

    def path_segment(self, value: Any) -> tuple[str, bool]:
        """The value in a URL's path, percent-encoded; and whether it is base64url of the record
        bytes.

        Raises BadUse.
        """
        if isinstance(value, Raw):
            return to_base64url(value.data).decode(), True
        text = self._convert(self.python.to_text, value)
        raw = None if _is_path_segment(text) else self.record_bytes(value)
        if raw is not None:
            return to_base64url(raw).decode(), True
        return quote(text, safe=""), False


FORMATS = {
    name: Format(name, format_.python, format_.codec) for name, format_ in registry.FORMATS.items()
}


def format_of(name: str) -> Format:
    """The format with this name. A format that is unknown here, such as a class of the deployment,
    has JSON documents."""
    if name in FORMATS:
        return FORMATS[name]
    format_ = registry.format_of(name)
    return Format(name, format_.python, format_.codec)


def key_format_of(description: Mapping[str, Any]) -> Format:
    """The format of the keys of the view with this description."""
    if description.get("key_fields"):
        return Format(description["key"], KEY_FIELDS)
    return format_of(description["key"])
