"""Applies changes of views' versions to this instance: part of the composition root."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set
from typing import Any

from backend.cluster.change_log import ChangeLog, Subject
from backend.cluster.group_state import GroupState
from backend.instance.settings import Settings
from model.topology import Topology
from model.view_versions import States, VersionState, ViewVersions, decode_record, encode_record
from model.views import View

log = logging.getLogger(__name__)

SUFFIX = "-versions"


def versions_of(application_id: str) -> Subject[VersionState]:
    """The topic with the current versions of a deployment's views."""
    return Subject(
        topic=f"{application_id}{SUFFIX}",
        encode=encode_record,
        decode=decode_record,
        noun="versions",
        unknown="version-unknown",
        conflict="version-conflict",
        unconfirmed="version-unconfirmed",
        decides="which version of a view is current",
        name_of=lambda base: f"the versions of view {base}",
    )


def initial_versions(views: tuple[View, ...]) -> ViewVersions:
    """What is known of the versions of views before the version topic has been read: without a
    second version of a view, there is nothing to decide."""
    declared = ViewVersions(views)
    return ViewVersions(views, None) if declared.are_used else declared


class VersionFollower:
    """Follows the version topic, if a view is declared with a version or the topic exists: then
    this instance may have a views.toml without the current version."""

    def __init__(
        self,
        views: tuple[View, ...],
        client_settings: Mapping[str, Any],
        settings: Settings,
        broker_timeout: float,
        group: GroupState,
        drop: Callable[[Set[str]], None],
        rejoin: Callable[[], None],
        timeout: float = 10.0,
        new_log: Callable[..., ChangeLog[VersionState]] = ChangeLog,
    ) -> None:
        """`broker_timeout`: s for a request. `group`: gets the current versions.
        `drop(views)` deletes the stores of views that are no longer assigned. `rejoin()`
        requests a topology without dropped views. `timeout`: how long (s) the start waits for an
        answer of the broker, twice. `new_log`: makes the log of the changes."""
        application_id = settings.application_id
        self.log = new_log(
            client_settings,
            application_id,
            broker_timeout,
            versions_of(application_id),
            self._apply,
        )
        self._are_declared = ViewVersions(views).are_used
        self._timeout = timeout
        self._drop = drop
        self._rejoin = rejoin
        self._group = group
        self._is_following = False

    def start(self) -> None:
        """Read which versions are current. Waits for some seconds only: until they are known,
        requests for the current version get a 503. If the topic exists, any view may have versions
        that are not declared here."""
        exists = self.log.exists(self._timeout)
        if exists:
            self._group.doubt_versions()
        elif exists is None and not self._are_declared:
            # following the topic would create it
            log.warning("it is not known whether views have versions: the broker does not answer")
        if exists or self._are_declared:
            self._is_following = True
            self.log.start()
            if not self.log.wait_until_known(self._timeout):
                log.warning("it is not known yet which versions of views are current")

    def note_topology(self, topology: Topology) -> None:
        """Begin to follow if other instances declare versions, which this one may lack."""
        if not self._is_following and any("@" in name for name in topology.views):
            self._is_following = True
            self.log.start()

    def _apply(self, states: States) -> None:
        before = self._group.versions
        self._group.apply_versions(states)
        versions = self._group.versions
        self._drop(versions.dropped)
        # if the topic has lost changes, the epoch is older, and proxies would not follow it
        if versions.dropped != before.dropped or versions.revision < before.revision:
            self._rejoin()
        for base in sorted(versions.with_versions):
            state = versions.state(base)
            if state is not None and state != before.state(base):
                log.info(
                    "view %s: version %d is current%s (change %d)", base, state.current,
                    f", dropped: {list(state.dropped)}" if state.dropped else "", state.revision,
                )  # fmt: skip
