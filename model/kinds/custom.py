"""Custom stores (`store = "package.module:Class"`). They only support queries by key."""

from __future__ import annotations

from model.kinds.key_value import KeyValue


class Custom(KeyValue):
    name = "custom"
    resource = None
    fields = frozenset()
    has_changes = False
    one_entry_per_key = False
    is_custom = True
