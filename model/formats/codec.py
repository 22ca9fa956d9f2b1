"""The interface of a codec: record bytes, stored bytes, URL text and JSON of a view's format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SchemaBytes:
    """A value without the frame that names its schema."""

    raw: bytes
    fingerprint: str
    schema_id: int | None


class Codec(ABC):
    """One format. Methods raise ValueError for invalid input, with a text that users read.

    The defaults are those of a format that RocksDB stores unchanged.
    """

    name: str
    """As in views.toml."""

    size: int | None = None
    """The size of every stored key in bytes; None if it varies."""

    keeps_bytes = True
    """Whether `to_store` returns its argument unchanged."""

    stores_values = True
    """Whether values are stored; False: entries have no value."""

    needs_schemas = False
    """Whether records can be read only with schemas of a registry or folder."""

    is_text = False
    """Whether record bytes, URL text and the content of the JSON string are the same UTF-8."""

    is_json = False
    """Whether record bytes are a JSON document: `to_json` returns its argument."""

    is_number = False
    """Whether `to_json` returns a JSON number: values can be ranked and added."""

    is_document = False
    """Whether `to_json` returns any JSON document, whose fields `by=` can name."""

    quotes_numbers = False
    """Whether `to_json` writes some numbers as strings of digits: Avro's decimals, and integers of
    64 bits in Protobuf's JSON mapping."""

    quotes_infinities = False
    """Whether `to_json` writes infinite numbers in documents as "Infinity" and "-Infinity"."""

    has_prefixes = False
    """Whether keys are ordered by their bytes as text is, so that a prefix is a range."""

    json_is_exact = True
    """Whether every byte of a key in a JSON body matters, so that its text must be kept."""

    lists_bytes = False
    """Whether a key that is not identified by its document is listed by its record bytes."""

    representation: str | None = None
    """The subtype of `application/…` of what `without_frame` returns; None if it is not served."""

    @property
    def probe(self) -> Callable[[bytes], object]:
        """A function like `check`, but users do not read its errors, and it may be stricter. If it
        raises ValueError, the bytes are still valid if `check` accepts them.

        Called for every record, so it should be a C function.
        """
        return self.check

    def verify(self, raw: bytes) -> None:
        """Like `check`, but for most records as fast as `probe`."""
        try:
            self.probe(raw)
        except ValueError:
            self.check(raw)

    @abstractmethod
    def check(self, raw: bytes) -> None:
        """Raise ValueError unless `raw` (record bytes) is valid in this format."""

    def check_stored(self, raw: bytes) -> None:
        """As `check`, for the value of a record that was applied to a store."""
        self.check(raw)

    @abstractmethod
    def to_json(self, raw: bytes) -> bytes:
        """Valid record bytes to a JSON document (UTF-8)."""

    def is_identified(self, raw: bytes, document: bytes) -> bool:
        """Whether `document`, the JSON of a key, means this key. Only asked with `lists_bytes`."""
        return True

    def to_store(self, raw: bytes) -> bytes:
        """Record bytes to stored bytes, whose byte order is the type's order."""
        return raw

    def from_store(self, stored: bytes) -> bytes:
        """The inverse of `to_store`."""
        return stored

    def from_text(self, text: bytes) -> bytes:
        """The percent-decoded bytes of a URL's path segment to record bytes."""
        self.check(text)
        return text

    def bound(self, text: bytes, is_last: bool) -> bytes:
        """As `from_text`, for the first or last key of a range, which need not be a key."""
        return self.from_text(text)

    def prefix(self, text: bytes) -> bytes:
        """The first bytes of all stored keys that have the prefix `text`, if it `has_prefixes`."""
        return text

    def other_key(self, raw: bytes) -> bytes | None:
        """Another record key that a text means if the view does not have the key `raw`, the bytes
        of the text; None if there is no other key."""
        return None

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        """A key or value in a JSON body as text for `from_text`; and whether the text is base64url
        of record bytes instead. `written`: its exact text, if `json_is_exact`."""
        return written, False

    def without_frame(self, raw: bytes) -> SchemaBytes:
        """Record bytes as served under `representation`."""
        raise NotImplementedError

    @property
    def schema_document(self) -> Any:
        """The schema of all records, for `GET /views/{view}`; None if there is none."""
        return None
