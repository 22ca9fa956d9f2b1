"""The topology that a direct client knows, and when to fetch it again."""

from __future__ import annotations

from collections.abc import Mapping

from queryable.client.protocol.topology import Service, Topology, parse_epoch

# between two fetches of a topology that may be outdated
_REFRESH_INTERVAL_S = 0.1
# for this time, an instance that did not answer is asked last
_FAILURE_PENALTY_S = 1.0


class TopologyTracker:
    """The newest topology of the current deployment, the newest epoch in a response, and the
    failures since.

    Epochs of two deployments cannot be compared. If the deployment belongs to a service, only a
    topology of the current one is used, as by the proxy.

    Times are seconds of the client's clock. No I/O: `ClientContext` fetches.
    """

    def __init__(self, own_urls: tuple[str, ...]) -> None:
        """`own_urls`: the URLs that the client was created with."""
        self.current: Topology | None = None
        self._own_urls = own_urls
        self._service: Service | None = None
        self._newest_epoch = (0, 0)
        self._newest_epoch_from = own_urls[0]
        self._is_suspect = False
        self._failed_at: dict[str, float] = {}
        self._fetched_at = float("-inf")

    def note_response(self, headers: Mapping[str, str], base_url: str) -> None:
        """Records the epoch in a response."""
        if text := headers.get("topology-epoch"):
            epoch = parse_epoch(text)
            if epoch > self._newest_epoch:
                self._newest_epoch, self._newest_epoch_from = epoch, base_url

    def note_failure(self, base_url: str, now: float) -> None:
        """Records that an instance did not answer: it may be gone."""
        self._is_suspect = True
        self._failed_at[base_url] = now

    def needs_fetch(self, now: float) -> bool:
        """Whether to fetch the topology now; if so, records the time of the fetch."""
        current = self.current
        is_outdated = current is None or self._is_suspect or current.epoch < self._newest_epoch
        if not is_outdated:
            return False
        if now < self._fetched_at + _REFRESH_INTERVAL_S:
            return False
        self._fetched_at = now
        return True

    def sources(self) -> tuple[str, ...]:
        """Base URLs from which to fetch the topology, in order; empty if only the client's own URLs
        are known."""
        current = self.current
        if current is None:
            return ()
        # The client's URLs lead to the current deployment. If they do not respond, the instance
        # that sent a newer epoch has that topology.
        is_behind = current.epoch < self._newest_epoch
        ahead = (self._newest_epoch_from,) if is_behind else ()
        return tuple(dict.fromkeys((*self._own_urls, *ahead, *current.instances)))

    def update(self, fetched: Topology) -> None:
        self._learn(fetched)
        current = self.current
        if current is not None and not self._is_current(current):
            self.current = current = None
        if not self._is_current(fetched):
            return
        # another thread may have fetched a newer one meanwhile
        if current is None or self._may_replace(current, fetched):
            self.current = fetched
            self._is_suspect = False
            if self._service is not None or self._newest_epoch < fetched.epoch:
                # The newest epoch until now may be that of another deployment of the service. If
                # there is a newer one of this deployment, the next response says so.
                self._newest_epoch = fetched.epoch

    def _learn(self, fetched: Topology) -> None:
        """Keep the state of the service that the sender has reported, if it is newer."""
        reported, service = fetched.service, self._service
        if reported is None:
            return
        if service is None or (
            service.revision < reported.revision
            if service.name == reported.name
            # revisions of two services cannot be compared: the current deployment decides
            else fetched.deployment == service.current
        ):
            self._service = reported

    def _is_current(self, topology: Topology) -> bool:
        return self._service is None or topology.deployment == self._service.current

    @staticmethod
    def _may_replace(current: Topology, fetched: Topology) -> bool:
        return current.deployment != fetched.deployment or current.epoch <= fetched.epoch

    def by_health(self, base_urls: tuple[str, ...], now: float) -> tuple[str, ...]:
        """The same instances in another order: those that failed within the last second come
        last."""
        never = float("-inf")
        return tuple(
            sorted(
                base_urls,
                key=lambda url: now < self._failed_at.get(url, never) + _FAILURE_PENALTY_S,
            )
        )
