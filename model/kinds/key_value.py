"""The kind `key-value`: one entry per key, from its latest record."""

from __future__ import annotations

import orjson

from model.formats.codec import Codec
from model.kinds.kind import DOCUMENT, VALUE, Deleter, Kind, PointReader, StoredView
from model.kinds.layout import ALL, EntryKey, Range, after
from model.records import ENTRY, decode_entry
from model.rows.row_view import Render


class KeyValueLayout:
    """One entry per key."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def bare_key(self, record_key: bytes) -> bytes:
        return record_key

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        return ENTRY + self._codec.to_store(record_key)

    def entry_key(self, stored_key: bytes) -> EntryKey:
        return EntryKey(self._codec.from_store(stored_key[1:]))

    def key_range(self, first: bytes | None, last: bytes | None) -> Range:
        low = ALL[0] if first is None else self.stored_key(first)
        high = ALL[1] if last is None else self.stored_key(last) + b"\0"
        return low, high

    def prefix_range(self, prefix: bytes) -> Range:
        return ENTRY + prefix, after(ENTRY + prefix)


class KeyValue(Kind):
    name = "key-value"
    derived = "keys"
    fields = frozenset({"append"})
    has_changes = True
    one_entry_per_key = True

    def layout(self, view: StoredView) -> KeyValueLayout:
        return KeyValueLayout(view.key_codec)

    def render(self, view: StoredView) -> Render:
        key_json, value_json = view.key_codec.to_json, view.value_codec.to_json
        if view.key_codec.keeps_bytes and view.value_codec.is_json:
            if view.key_codec.is_text:
                dumps = orjson.dumps
                return lambda pairs: [
                    DOCUMENT % (dumps(k[1:].decode()), s[VALUE]) for k, s in pairs
                ]
            return lambda pairs: [DOCUMENT % (key_json(k[1:]), s[VALUE]) for k, s in pairs]
        from_store = view.key_codec.from_store
        return lambda pairs: [
            DOCUMENT % (key_json(from_store(k[1:])), value_json(s[VALUE])) for k, s in pairs
        ]

    def delete_expired(
        self,
        view: StoredView,
        store: PointReader,
        batch: Deleter,
        stored_key: bytes,
        until: int,
        mispartitioned: bool,
    ) -> None:
        stored = store.get(stored_key)
        # the key may have a newer record
        if stored is not None and decode_entry(stored).timestamp < until:
            batch.delete(stored_key)
