"""Keys in requests: the text of a URL, or record bytes, as checked record bytes."""

from __future__ import annotations

from model.problems import BadRequest, KeyTooLong
from model.views import View


class KeyTexts:
    """Parses the keys of one view."""

    view: View

    def __init__(self, view: View, max_key_bytes: int) -> None:
        self.view = view
        self.max_key_bytes = max_key_bytes
        self._from_text = view.key_codec.from_text
        self._is_text = view.key_codec.is_text

    def parse_key(self, text: bytes) -> bytes:
        """Percent-decoded text of a URL as record bytes. Raises BadRequest, KeyTooLong."""
        if len(text) > self.max_key_bytes:
            raise KeyTooLong(
                "key-too-long",
                f"The key has {len(text)} bytes; at most {self.max_key_bytes} are allowed.",
            )
        try:
            return self._from_text(text)
        except ValueError as e:
            raise BadRequest(
                "key-undecodable",
                f"View {self.view.name} has {self.view.key} keys, and this is {e}.",
            ) from None

    def parse_keys(self, texts: list[bytes]) -> list[bytes]:
        """`parse_key` of each; raises if one of them is refused."""
        if not self._is_text or max(map(len, texts)) > self.max_key_bytes:
            return list(map(self.parse_key, texts))
        try:
            # if the joined text is UTF-8, so is each part
            b" ".join(texts).decode()
        except UnicodeDecodeError:
            return list(map(self.parse_key, texts))
        return texts

    def parse_raw_key(self, raw: bytes) -> bytes:
        """Checks record bytes from a client. Raises BadRequest, KeyTooLong."""
        if len(raw) > self.max_key_bytes:
            return self.parse_key(raw)
        try:
            self.view.key_codec.check(raw)
        except ValueError as e:
            raise BadRequest(
                "key-undecodable",
                f"View {self.view.name} has {self.view.key} keys, and these bytes are {e}.",
            ) from None
        return raw
