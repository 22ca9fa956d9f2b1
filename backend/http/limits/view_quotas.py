"""Refuses requests above the quota of their view.

A quota is for the whole deployment. Each proxy counts the requests that enter there. Requests that
enter at an instance are counted here, against the instance's share of the quota. The share is the
part of the partitions for which the instance is the active, and at least 1/n with n instances,
because any instance answers queries of whole views.

A request that a proxy or another instance has counted says so, and is not counted again. It is
believed if it comes from this machine; otherwise any client could say so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from backend.instance.context import QueryContext
from backend.instance.settings import is_loopback
from backend.wire.answer import MARK, Header
from model.problems import TooManyRequests
from model.quotas import Quota, TokenBucket
from model.topology import Topology
from model.views import View

COUNTED = b"queryable-counted"
"""The header of a request that a proxy has counted."""


class ViewQuotas:
    """The buckets of the views that have a quota. Used in the event loop."""

    def __init__(self, context: QueryContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}
        self._shares: dict[str, float] = {}
        self._shares_of: Topology | None = None

    def admit(self, view: View, headers: list[Header], client: Any) -> None:
        """Counts a request. Raises TooManyRequests. `client`: the address of the socket, or
        None."""
        quota = view.quota
        if quota is None or was_counted(headers, client):
            return
        wait = self._take(view.name, quota)
        if wait:
            self._context.telemetry.over_quota[view.name] += 1
            raise TooManyRequests(
                "quota-exceeded",
                f"View {view.name} has a quota of {quota} in the whole deployment.",
                math.ceil(wait),
            )

    def _take(self, view: str, quota: Quota) -> float:
        """Takes a token of the view. Returns 0, or the time (s) until there is a token."""
        now = self._clock()
        share = self._share(view)
        capacity = max(1.0, quota.requests * share)
        bucket = self._buckets.get(view)
        if bucket is None:
            bucket = self._buckets[view] = TokenBucket(capacity, now)
        return bucket.take(quota.per_second * share, capacity, now)

    def _share(self, view: str) -> float:
        topology = self._context.group.topology
        if topology is not self._shares_of:
            self._shares_of, self._shares = topology, {}
        share = self._shares.get(view)
        if share is None:
            share = share_of(topology, self._context.settings.instance_id, view)
            self._shares[view] = share
        return share


def share_of(topology: Topology, instance: str, view: str) -> float:
    """The share of an instance in the quota of a view, above 0 and up to 1."""
    placed = topology.views.get(view)
    partitions = 0 if placed is None else placed.partitions
    mine = len(topology.roles_of(instance, view).get("active", ())) if partitions else 0
    return max(mine / (partitions or 1), 1 / (len(topology.members) or 1))


def was_counted(headers: list[Header], client: Any) -> bool:
    """Whether a proxy or instance on this machine has counted the request. `client`: None for a
    socket without an address, which is of this machine."""
    is_local = client is None or is_loopback(client[0])
    return is_local and any(name in (COUNTED, MARK) for name, _ in headers)
