"""Versions of a view: `orders@2` is version 2 of the view `orders`. Pure.

Each version is a view of its own. In files, between instances and on disk, version 1 has the name
of the view, `orders`; a later version has the name `orders@2`. Requests use these names:

    orders       the current version
    orders@1     version 1, whether it is current or not

Which version is current is the result of all records of the deployment's version topic: see
`changes.records`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import orjson

from model.changes.records import decode_object
from model.views import View

MAX_VERSION = 999_999
_NAME = re.compile(r"(?P<base>[^@]+)@(?P<version>[1-9][0-9]{0,5})", re.ASCII)


def split_name(name: str) -> tuple[str, int]:
    """The name of the view, and the version: 1 if `name` has none. ValueError."""
    if "@" not in name:
        return name, 1
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f'"{name}" is not a view and a version such as "orders@2"')
    return found["base"], int(found["version"])


def base_of(name: str) -> str:
    """The name of the view, without a version."""
    return name.partition("@")[0]


def stored_name(base: str, version: int) -> str:
    """The name of a version in files, between instances and on disk."""
    return base if version == 1 else f"{base}@{version}"


def public_name(base: str, version: int) -> str:
    """The name that means this version in a request, whichever is current."""
    return f"{base}@{version}"


@dataclass(frozen=True)
class VersionState:
    """The state of one view after `revision` changes."""

    current: int
    previous: int | None = None  # where a rollback leads to
    dropped: tuple[int, ...] = ()
    revision: int = 0

    def switched_to(self, version: int) -> VersionState:
        return replace(self, current=version, previous=self.current, revision=self.revision + 1)

    def rolled_back(self) -> VersionState:
        """The previous version is current, and the other way round; ValueError."""
        if self.previous is None:
            raise ValueError("there is no previous version")
        return self.switched_to(self.previous)

    def without(self, version: int) -> VersionState:
        """The version is dropped. It is not the current one."""
        return replace(
            self,
            previous=None if self.previous == version else self.previous,
            dropped=tuple(sorted({*self.dropped, version})),
            revision=self.revision + 1,
        )


States = Mapping[str, VersionState]
"""The state of each view that has been changed, by its name."""


def encode_record(base: str, state: VersionState, at_ms: int) -> bytes:
    """The value of a record of the version topic."""
    return orjson.dumps(
        {
            "view": base,
            "current": state.current,
            "previous": state.previous,
            "dropped": state.dropped,
            "revision": state.revision,
            "at": at_ms,
        }
    )


def decode_record(value: bytes | str | None) -> tuple[str, VersionState]:
    """The inverse of `encode_record`. Raises ValueError if the record is malformed."""
    document = decode_object(value)
    base, dropped, previous = (document.get(each) for each in ("view", "dropped", "previous"))
    if type(base) is not str or type(dropped) is not list:
        raise ValueError("no record of a version")
    numbers: list[Any] = [document.get("current"), document.get("revision"), *dropped]
    numbers += [] if previous is None else [previous]
    if any(type(number) is not int or number < 1 for number in numbers):
        raise ValueError("no record of a version")
    state = VersionState(numbers[0], previous, tuple(sorted(dropped)), numbers[1])
    return base, state


@dataclass(frozen=True)
class Versions:
    """The versions of all views, and which of them are current. `states`: None if they are not
    known yet. `may_lack_some`: whether other instances may declare further versions."""

    views: tuple[View, ...] = ()
    states: States | None = field(default_factory=lambda: MappingProxyType({}))
    may_lack_some: bool = False

    by_base: Mapping[str, Mapping[int, View]] = field(init=False)
    """Each view's versions that are not dropped; empty if none is left."""
    named: Mapping[str, View] = field(init=False)
    """The view that a name in a request means."""
    paths: Mapping[str, str] = field(init=False)
    """The short path of each view that has one. It means the current version."""
    undecided: frozenset[str] = field(init=False)
    """Names that mean a version which this instance does not know, or not yet."""
    dropped: frozenset[str] = field(init=False)
    """Stored names of dropped versions."""
    with_versions: frozenset[str] = field(init=False)
    """Names of the views whose answers say which version they are of."""

    def __post_init__(self) -> None:
        states = self.states or {}
        declared: dict[str, dict[int, View]] = {}
        for view in sorted(self.views, key=lambda view: view.version):
            declared.setdefault(view.base, {})[view.version] = view
        by_base: dict[str, dict[int, View]] = {}
        named: dict[str, View] = {}
        undecided = set()
        for base in dict.fromkeys(view.base for view in self.views):
            gone = states[base].dropped if base in states else ()
            left = {v: view for v, view in declared[base].items() if v not in gone}
            by_base[base] = left
            if (current := self._current(base, declared[base], left)) is None:
                undecided.add(base)
            else:
                named[base] = current
            named |= {public_name(base, version): view for version, view in left.items()}
        put = object.__setattr__  # of a frozen dataclass
        put(self, "by_base", by_base)
        put(self, "named", named)
        paths = {view.base: view.path for view in reversed(self.views) if view.path is not None}
        put(self, "paths", paths)
        put(self, "undecided", frozenset(undecided))
        dropped = {stored_name(b, v) for b, state in states.items() for v in state.dropped}
        put(self, "dropped", frozenset(dropped))
        many = {base for base, of in declared.items() if _is_versioned(of) or base in states}
        put(self, "with_versions", frozenset(many))

    def _current(
        self, base: str, declared: Mapping[int, View], left: Mapping[int, View]
    ) -> View | None:
        if self.states is None and (self.may_lack_some or _is_versioned(declared)):
            return None
        state = (self.states or {}).get(base)
        return left.get(min(declared) if state is None else state.current)

    @property
    def are_used(self) -> bool:
        """Whether a view is declared with a version."""
        return any(view.version > 1 for view in self.views)

    @property
    def revision(self) -> int:
        """The number of changes so far, of all views."""
        return sum(state.revision for state in (self.states or {}).values())

    def state(self, base: str) -> VersionState | None:
        """The state of a view; None if it is not known yet. Without a change, the lowest declared
        version is current."""
        if self.states is None:
            return None
        known = self.states.get(base)
        return VersionState(min(self.by_base[base], default=1)) if known is None else known

    def in_doubt(self) -> Versions:
        """Before the states are known: any view may have versions that are not declared here."""
        return Versions(self.views, None, may_lack_some=True)

    def with_states(self, states: States) -> Versions:
        return Versions(self.views, states)

    def others(self, view: View) -> list[View]:
        """The other versions of a view, the latest first."""
        return [each for each in reversed([*self.by_base[view.base].values()]) if each != view]


def _is_versioned(declared: Mapping[int, View]) -> bool:
    return set(declared) != {1}
