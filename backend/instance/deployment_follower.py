"""Learns which deployment of a service is current: part of the composition root."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from backend.cluster.change_log import ChangeLog, Subject
from backend.cluster.group_state import GroupState
from backend.instance.settings import Settings
from model.changes.deployments import DeploymentState, decode_record, encode_record

log = logging.getLogger(__name__)

SUFFIX = "-deployments"
_TIMEOUT = 10.0  # s


def deployments_of(service: str) -> Subject[DeploymentState]:
    """The topic with the current deployment of a service."""
    return Subject(
        topic=f"{service}{SUFFIX}",
        encode=encode_record,
        decode=decode_record,
        noun="deployments",
        unknown="deployment-unknown",
        conflict="deployment-conflict",
        unconfirmed="deployment-unconfirmed",
        decides="which deployment of a service is current",
        name_of=lambda name: f"the current deployment of service {name}",
    )


class DeploymentFollower:
    """Follows the topic of the service, if this deployment belongs to one. The first deployment of
    a service becomes current by itself."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        settings: Settings,
        broker_timeout: float,
        group: GroupState,
        rejoin: Callable[[], None],
        new_log: Callable[..., ChangeLog[DeploymentState]] = ChangeLog,
    ) -> None:
        """`broker_timeout`: s for a request. `group`: gets the current deployment.
        `rejoin()` requests a topology with a newer epoch. `new_log`: makes the log of the changes.
        """
        self._service = settings.service
        self._rejoin = rejoin
        self._group = group
        self.log: ChangeLog[DeploymentState] | None = None
        if settings.service:
            self.log = new_log(
                client_settings,
                settings.application_id,
                broker_timeout,
                deployments_of(settings.service),
                self._apply,
                (settings.service, DeploymentState(settings.application_id)),
            )

    def start(self) -> None:
        """Read which deployment is current. Waits for some seconds only, because the instance
        answers requests even if its deployment is not current."""
        if self.log is not None:
            self.log.start()
            if not self.log.wait_until_known(_TIMEOUT):
                log.warning("it is not known yet which deployment is current")

    def stop(self) -> None:
        if self.log is not None:
            self.log.stop()

    def _apply(self, states: Mapping[str, DeploymentState]) -> None:
        state = states.get(self._service)
        if state is None:
            return
        before = self._group.deployment
        self._group.apply_deployment(state)
        # if the topic has lost changes, the epoch is older, and proxies would not follow it
        if before is not None and state.revision < before.revision:
            self._rejoin()
        log.info(
            "service %s: deployment %s is current, this one is %s (change %d)",
            self._service, state.current, self._group.group_id, state.revision,
        )  # fmt: skip
