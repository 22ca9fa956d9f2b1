"""Custom formats: a class named in views.toml as `key = "package.module:Class"`, or as `value`.

It is a subclass of `Codec`, whose constructor is called without arguments. Backends import it when
they start; other processes only know its name. See docs/custom-classes.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from model.classes import import_class
from model.formats.base64url import from_base64url
from model.formats.codec import Codec
from model.formats.format import Format, PythonForm, document, parse_json, written_json
from model.formats.json_decoder import decode_body
from model.formats.json_text import check_json_text
from model.formats.schemas import SchemaSource
from model.problems import ConfigurationError

_BASE = f"{Codec.__module__}.{Codec.__name__}"


class CustomCodec(Codec):
    """Calls a custom codec and checks its results: they end up in stores and in answers.

    Any exception of the class makes the record a dead letter, or the request a bad one.
    """

    lists_bytes = True

    def __init__(self, path: str, codec: Codec) -> None:
        self.name = path
        self.size = codec.size
        self.keeps_bytes = codec.keeps_bytes
        self.is_number = codec.is_number
        self.is_document = codec.is_document
        self.has_prefixes = codec.has_prefixes
        self._codec = codec

    def check(self, raw: bytes) -> None:
        try:
            self._codec.check(raw)
            check_json_text(self._codec.to_json(raw))
            stored = self._codec.to_store(raw)
            restored = self._codec.from_store(stored)
        except ValueError:
            raise
        except Exception as e:
            raise ValueError(f"{self.name} failed: {type(e).__name__}: {e}") from None
        if restored != raw:
            raise ValueError(f"{self.name} failed: from_store does not undo to_store")
        if self.size is not None and len(stored) != self.size:
            raise ValueError(f"{self.name} failed: {len(stored)} stored bytes, not {self.size}")

    def to_json(self, raw: bytes) -> bytes:
        return self._codec.to_json(raw)

    def to_store(self, raw: bytes) -> bytes:
        return self._codec.to_store(raw)

    def from_store(self, stored: bytes) -> bytes:
        return self._codec.from_store(stored)

    def is_identified(self, raw: bytes, document: bytes) -> bool:
        """Whether the document means the key in bodies or in URLs. In a URL, a string is without
        its quotes, and any other document is unchanged."""
        value = decode_body(document)
        is_text = isinstance(value, str)
        return self._means(
            raw, lambda: (value.encode() if is_text else document, False)
        ) or self._means(raw, lambda: self.json_to_text(value, document))

    def _means(self, raw: bytes, text_of: Callable[[], tuple[bytes, bool]]) -> bool:
        try:
            text, is_base64url = text_of()
            return (from_base64url(text) if is_base64url else self.from_text(text)) == raw
        except ValueError:
            return False

    def from_text(self, text: bytes) -> bytes:
        try:
            raw = self._codec.from_text(text)
        except ValueError:
            raise
        except Exception as e:
            raise ValueError(f"{self.name} failed: {type(e).__name__}: {e}") from None
        self.check(raw)
        return raw

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        try:
            text, is_base64url = self._codec.json_to_text(value, written)
        except ValueError:
            raise
        except Exception as e:
            raise ValueError(f"{self.name} failed: {type(e).__name__}: {e}") from None
        return text, is_base64url


def _to_text(value: Any) -> bytes:
    """The text in a URL: text as it is, other values as JSON."""
    return value.encode() if isinstance(value, str) else document(value)


def _from_typed(text: str) -> Any:
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else written_json(text)


class CustomFormat(Format):
    """The format of one class."""

    python = PythonForm(to_text=_to_text, from_typed=_from_typed, lists_bytes=True)

    def __init__(self, path: str) -> None:
        self.name = path

    def codec_with(self, definition: str | None, source: SchemaSource | None) -> Codec:
        """Raises ConfigurationError if the class is not usable."""
        return load_codec(self.name)

    def is_routed(self, definition: str | None) -> bool:
        return False


@lru_cache(maxsize=256)
def load_codec(path: str) -> CustomCodec:
    """The codec named by `package.module:Class`. Raises ConfigurationError if it is not usable."""
    class_ = import_class(path)
    if not isinstance(class_, type) or not issubclass(class_, Codec):
        raise ConfigurationError(f"{path} is not a subclass of {_BASE}")
    if missing := sorted(class_.__abstractmethods__):
        raise ConfigurationError(f"{path} lacks the methods {', '.join(missing)}; see {_BASE}")
    changes_bytes = (
        class_.to_store is not Codec.to_store or class_.from_store is not Codec.from_store
    )
    if class_.keeps_bytes and changes_bytes:
        raise ConfigurationError(f"{path} has to_store: it needs keeps_bytes = False")
    if class_.has_prefixes and not class_.keeps_bytes:
        raise ConfigurationError(f"{path} has prefixes: it needs keeps_bytes = True")
    try:
        codec = class_()
    except Exception as e:
        raise ConfigurationError(
            f"{path} cannot be created without arguments: {type(e).__name__}: {e}"
        ) from e
    return CustomCodec(path, codec)
