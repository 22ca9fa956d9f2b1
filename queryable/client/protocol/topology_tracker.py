"""The topology that a direct client knows, and when to fetch it again."""

from __future__ import annotations

from collections.abc import Mapping

from queryable.client.protocol.topology import Topology, parse_epoch

# s between two fetches of a topology that may be outdated
_REFRESH_INTERVAL = 0.1
# an instance that did not answer is tried last for this many seconds
_FAILURE_PENALTY = 1.0


class TopologyTracker:
    """The newest topology, the newest epoch in a response, and the failures since.

    Times are seconds of the client's clock. No I/O: `ClientContext` fetches.
    """

    def __init__(self, base_url: str) -> None:
        self.current: Topology | None = None
        self._base_url = base_url
        self._newest_epoch = (0, 0)
        self._newest_epoch_from = base_url
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
        is_outdated = (
            self.current is None or self._is_suspect or self.current.epoch < self._newest_epoch
        )
        if not is_outdated:
            return False
        if self.current is not None and now < self._fetched_at + _REFRESH_INTERVAL:
            return False
        self._fetched_at = now
        return True

    def sources(self) -> tuple[str, ...]:
        """Base URLs from which to fetch the topology, in order; empty if only the client's own URL
        is known."""
        current = self.current
        if current is None:
            return ()
        # The instance that sent a newer epoch has that topology. If the client's URL does not
        # respond, the instances still have it.
        is_behind = current.epoch < self._newest_epoch
        first = (self._newest_epoch_from,) if is_behind else ()
        return tuple(dict.fromkeys((*first, self._base_url, *current.instances)))

    def update(self, fetched: Topology) -> None:
        # another thread may have fetched a newer one meanwhile
        if self.current is None or self.current.epoch <= fetched.epoch:
            self.current = fetched
            self._is_suspect = False
        self._newest_epoch = max(self._newest_epoch, fetched.epoch)

    def by_health(self, base_urls: tuple[str, ...], now: float) -> tuple[str, ...]:
        """The same instances; those that failed within the last second come last."""
        never = float("-inf")
        return tuple(
            sorted(
                base_urls,
                key=lambda url: now < self._failed_at.get(url, never) + _FAILURE_PENALTY,
            )
        )
