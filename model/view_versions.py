"""Versions of a view: `orders@2` is version 2 of the view `orders`. Pure.

Each version is a separate view. In files, between instances and on disk, version 1 has the name of
the view, `orders`; a later version has the name `orders@2`. Requests use these names:

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
from model.group_views import Claim, GroupViews, leading, overlap
from model.views import View

MAX_VERSION = 999_999
_NAME = re.compile(r"(?P<base>[^@]+)@(?P<version>[1-9][0-9]{0,5})", re.ASCII)


def split_name(name: str) -> tuple[str, int]:
    """The name of the view, and the version: 1 if `name` has none. Raises ValueError."""
    if "@" not in name:
        return name, 1
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f'"{name}" is not a view and a version such as "orders@2"')
    return match["base"], int(match["version"])


def base_of(name: str) -> str:
    """The name of the view, without a version."""
    return name.partition("@")[0]


def stored_name(base: str, version: int) -> str:
    """The name of a version in files, between instances and on disk."""
    return base if version == 1 else f"{base}@{version}"


def public_name(base: str, version: int) -> str:
    """The name that means this version in a request, whichever version is current."""
    return f"{base}@{version}"


@dataclass(frozen=True)
class VersionState:
    """The current, previous and dropped versions of one view after `revision` changes."""

    current: int
    previous: int | None = None  # the version that a rollback makes current
    dropped: tuple[int, ...] = ()
    revision: int = 0

    def switched_to(self, version: int) -> VersionState:
        return replace(self, current=version, previous=self.current, revision=self.revision + 1)

    def rolled_back(self) -> VersionState:
        """The state in which the current and the previous version are exchanged. Raises ValueError
        if there is no previous version."""
        if self.previous is None:
            raise ValueError("there is no previous version")
        return self.switched_to(self.previous)

    def without(self, version: int) -> VersionState:
        """The state after a version is dropped, which is not the current one."""
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
    base, dropped, previous = (document.get(name) for name in ("view", "dropped", "previous"))
    if type(base) is not str or type(dropped) is not list:
        raise ValueError("no record of a version")
    numbers: list[Any] = [document.get("current"), document.get("revision"), *dropped]
    numbers += [] if previous is None else [previous]
    if any(type(number) is not int or number < 1 for number in numbers):
        raise ValueError("no record of a version")
    state = VersionState(numbers[0], previous, tuple(sorted(dropped)), numbers[1])
    return base, state


@dataclass(frozen=True)
class ViewVersions:
    """The meaning of the names and paths in requests. It follows from what all instances of a group
    share: the topology and the changes of versions. So it is the same on all instances, even while
    their files differ.

    `views`: the views that this instance declares. `states`: None if they are not known yet.
    `may_lack_some`: whether other instances may declare further versions. `group`: None before this
    instance has a topology; then its own views count.
    """

    views: tuple[View, ...] = ()
    states: States | None = field(default_factory=lambda: MappingProxyType({}))
    may_lack_some: bool = False
    group: GroupViews | None = None

    by_base: Mapping[str, Mapping[int, View]] = field(init=False)
    """Each view's versions that are declared here and not dropped; empty if none is left."""
    current: Mapping[str, str] = field(init=False)
    """The stored name of each view's current version."""
    named: Mapping[str, View] = field(init=False)
    """The view that a name in a request means."""
    elsewhere: Mapping[str, str] = field(init=False)
    """The stored name of the view that a name in a request means, if only other instances have the
    view: it is not declared here, or it is declared differently here."""
    leads_to: Mapping[str, str] = field(init=False)
    """The name of the view that each short path leads to. It means the current version."""
    paths: Mapping[str, str] = field(init=False)
    """The short path of each view that has one."""
    undecided: frozenset[str] = field(init=False)
    """Names for which this instance does not know the version, or does not know it yet."""
    undecided_paths: frozenset[str] = field(init=False)
    """Paths for which no view is decided."""
    dropped: frozenset[str] = field(init=False)
    """Stored names of dropped versions."""
    with_versions: frozenset[str] = field(init=False)
    """Names of the views whose answers name their version."""
    _lowest: Mapping[str, int] = field(init=False)
    """The lowest version of each view in the group. Before the group is known: the lowest version
    that is declared here."""

    def __post_init__(self) -> None:
        states = self.states or {}
        set_field = object.__setattr__  # the dataclass is frozen
        dropped = {stored_name(b, v) for b, state in states.items() for v in state.dropped}
        set_field(self, "dropped", frozenset(dropped))
        by_base: dict[str, dict[int, View]] = {view.base: {} for view in self.views}
        for view in sorted(self.views, key=lambda view: view.version):
            if view.name not in dropped:
                by_base[view.base][view.version] = view
        set_field(self, "by_base", by_base)
        names_by_base = self._by_version()
        versioned = (b for b, names in names_by_base.items() if set(names) != {1} or b in states)
        set_field(self, "with_versions", frozenset(versioned))
        current = {
            base: stored
            for base, names in names_by_base.items()
            if (stored := self._current(base, names)) is not None
        }
        set_field(self, "current", current)
        set_field(self, "undecided", frozenset(names_by_base.keys() - current.keys()))
        means = dict(current)
        for base, names in names_by_base.items():
            means |= {
                public_name(base, v): stored for v, stored in names.items() if stored not in dropped
            }
        here = {view.name: view for view in self.views if self.is_here(view)}
        set_field(
            self, "named", {name: here[stored] for name, stored in means.items() if stored in here}
        )
        set_field(
            self, "elsewhere", {n: stored for n, stored in means.items() if stored not in here}
        )
        self._put_paths()

    def _by_version(self) -> dict[str, dict[int, str]]:
        """The stored names of all versions of each view, by version number. Dropped versions are
        included."""
        group_names = () if self.group is None else self.group.hashes
        names: dict[str, dict[int, str]] = {}
        lowest: dict[str, int] = {}
        for name in dict.fromkeys((*group_names, *(view.name for view in self.views))):
            base, version = split_name(name)
            names.setdefault(base, {})[version] = name
            if name in group_names or base not in lowest or not group_names:
                lowest[base] = min(version, lowest.get(base, version))
        object.__setattr__(self, "_lowest", lowest)
        return names

    def is_here(self, view: View) -> bool:
        """Whether this instance declares the view as its group does, as far as that is known."""
        group_hash = None if self.group is None else self.group.hashes.get(view.name)
        return group_hash in (None, view.hash)

    def _current(self, base: str, names: Mapping[int, str]) -> str | None:
        """The stored name of the current version; None if it is not known."""
        if self.states is None and (self.may_lack_some or set(names) != {1}):
            return None
        state = (self.states or {}).get(base)
        stored = names.get(self._lowest[base] if state is None else state.current)
        return None if stored in self.dropped else stored

    def _put_paths(self) -> None:
        set_field = object.__setattr__
        own = {view.name: view.path for view in self.views if view.path is not None}
        declared = own if self.group is None else self.group.paths
        claims = self._claims(declared)
        # one file has no path twice
        leads_to = dict(claims) if self.group is None else leading(claims, self.group.decided)
        set_field(self, "leads_to", leads_to)
        paths = {base: path for path, base in reversed(leads_to.items())}
        for base, stored in self.current.items():
            if leads_to.get(path := declared.get(stored, "")) == base:
                paths[base] = path
        set_field(self, "paths", paths)
        undecided = {path for path, _ in claims if path not in leads_to}
        # and the paths in this instance's own file that the group does not use yet
        undecided |= {
            path
            for name, path in own.items()
            if name not in self.dropped and not any(overlap(path, other) for other in leads_to)
        }
        set_field(self, "undecided_paths", frozenset(undecided))

    def _claims(self, declared: Mapping[str, str]) -> list[Claim]:
        """The claims for the paths of views. A dropped version claims its path only on behalf of
        the other versions of its view: if none of them has a path."""
        kept = {base_of(name) for name in declared if name not in self.dropped}
        return [
            Claim(path, base_of(name))
            for name, path in declared.items()
            if name not in self.dropped or base_of(name) not in kept
        ]

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
        state = self.states.get(base)
        return VersionState(self._lowest.get(base, 1)) if state is None else state

    def in_doubt(self) -> ViewVersions:
        """The versions before the states are known: any view may have versions that are not
        declared here."""
        return ViewVersions(self.views, None, may_lack_some=True, group=self.group)

    def with_states(self, states: States) -> ViewVersions:
        return ViewVersions(self.views, states, group=self.group)

    def in_group(self, group: GroupViews) -> ViewVersions:
        """A copy with the views of another topology, or this object if the views are the same."""
        return self if group == self.group else replace(self, group=group)

    def other_versions(self, view: View) -> list[View]:
        """The other versions of a view, the latest first."""
        versions = reversed([*self.by_base[view.base].values()])
        return [version for version in versions if version != view and self.is_here(version)]
