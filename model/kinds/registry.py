"""All kinds of store. A new kind is a module next to this one, and a line here."""

from __future__ import annotations

from model.kinds.custom import Custom
from model.kinds.global_table import GlobalTable
from model.kinds.key_value import KeyValue
from model.kinds.kind import Kind
from model.kinds.session import Session
from model.kinds.versioned import Versioned
from model.kinds.window import Window

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (KeyValue(), Window(), Session(), Versioned(), GlobalTable())
}
"""By the name that `store = …` has in views.toml."""

CUSTOM = Custom()


def kind_of(store: str) -> Kind:
    """The kind of store for the value of `store` in views.toml; CUSTOM for a class."""
    return KINDS.get(store, CUSTOM)
