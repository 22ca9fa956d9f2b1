"""Fetches the topology to which the leader has sent a reference, over HTTP.

The leader is asked first. Then the leader and members of the current topology are asked in turn,
because every member that has the topology passes it on. Until one of them answers, the instance
uses its current topology, as during a rebalance.
"""

from __future__ import annotations

import logging
import random
import ssl
import time
from collections.abc import Callable

from backend.cluster.encoded_topologies import EncodedTopologies
from backend.security.signatures import HEADER, Signer
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.group.topology_reference import TopologyReference
from model.http.answers import TLS, RequestFailed
from model.http.requests import send
from model.topology import Member, Topology, TopologyError

log = logging.getLogger(__name__)

PATH = "/internal/topology"
GIVE_UP_AFTER = 30.0
"""Seconds after which the group needs a new topology, because no instance has this one. The time
doubles each time, because this instance may be the only one that cannot fetch the topology."""

_TIMEOUT = 2.0  # s for all of the answer: the member must poll its group
_MAX_PROBLEM_BYTES = 4096  # a topology may be shorter than a problem
_MAX_GIVE_UP_AFTER = 16 * GIVE_UP_AFTER
SPREAD, MAX_SPREAD = 0.001, 2.0
"""Seconds per instance, and at most, over which the first requests to the leader are spread."""

_FIRST_PAUSE, _MAX_PAUSE = 0.2, 2.0  # s between two attempts


class TopologyFetcher:
    """Fetches one topology at a time. Used in the membership thread only."""

    def __init__(
        self,
        id_: str,
        topologies: EncodedTopologies,
        signer: Signer | None,
        tls: TLS = ssl.create_default_context,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`id_`: of this instance. `topologies`: where the topology is kept for others.

        `signer`: None without a cluster secret. `tls()`: the context for instances with https.
        `clock()`: s.
        """
        self._id = id_
        self._topologies = topologies
        self._signer = signer
        self._tls = tls
        self._clock = clock
        self._failures = RateLimitedLog(log)
        self._reference: TopologyReference | None = None
        self._generation = 0
        self._requested_at = 0.0
        self._next_at = 0.0
        self._attempts = 0
        self._give_up_after = GIVE_UP_AFTER

    def request(self, reference: TopologyReference, generation: int) -> None:
        """From now on, fetch this topology, and no other."""
        self._reference, self._generation = reference, generation
        self._requested_at = self._clock()
        spread = min(MAX_SPREAD, SPREAD * reference.instances)
        if self._topologies.get(reference.digest) is not None:
            spread = 0.0  # this instance is the leader
        self._next_at = self._requested_at + random.uniform(0, spread)
        self._attempts = 0

    def cancel(self) -> None:
        """Stop fetching: the topology has been fetched, or a newer one was sent."""
        self._reference = None
        self._give_up_after = GIVE_UP_AFTER

    def give_up(self) -> None:
        """Wait for another topology."""
        self._reference = None
        self._give_up_after = min(2 * self._give_up_after, _MAX_GIVE_UP_AFTER)

    @property
    def wait(self) -> float | None:
        """Seconds until the next attempt; None if there is nothing to fetch."""
        return None if self._reference is None else max(0.0, self._next_at - self._clock())

    @property
    def has_given_up(self) -> bool:
        """Whether the topology could not be fetched for GIVE_UP_AFTER seconds or more."""
        waited = self._clock() - self._requested_at
        return self._reference is not None and waited > self._give_up_after

    def attempt(self, current: Topology) -> Topology | None:
        """The topology, if an attempt is due and succeeds. The members of `current` are asked.
        Raises TopologyError if the leader's topology is malformed."""
        reference = self._reference
        if reference is None or self.wait:
            return None
        encoded = self._topologies.get(reference.digest) or self._fetch(reference, current)
        if encoded is None:
            pause = min(_FIRST_PAUSE * 2**self._attempts, _MAX_PAUSE)
            self._attempts += 1
            self._next_at = self._clock() + pause * random.uniform(0.5, 1.0)
            return None
        self.cancel()
        self._topologies.add(encoded)
        return Topology.decode(encoded, self._generation)

    def _fetch(self, reference: TopologyReference, current: Topology) -> bytes | None:
        """The encoded topology from one member; None if the member does not send it."""
        member = reference.leader
        others = [other for other in current.members if other.id not in (member.id, self._id)]
        if self._attempts % 2 and others:
            member = random.choice(others)
        try:
            return self._fetch_from(member, reference)
        except (RequestFailed, TopologyError) as e:
            self._failures.warn(
                member.id, f"instance {member.id} has not sent the new topology: {e!r}"
            )
        return None

    def _fetch_from(self, member: Member, reference: TopologyReference) -> bytes:
        """The encoded topology. Raises TopologyError if the answer is not the topology."""
        body = reference.digest.encode()
        signed = self._signer and self._signer.sign("POST", PATH.encode(), member.id, body)
        answer = send(
            member.origin + PATH,
            _TIMEOUT,
            max(reference.size, _MAX_PROBLEM_BYTES),
            body=body,
            headers=signed.headers if signed else {},
            tls=self._tls,
        )
        encoded = answer.body
        signature = answer.headers.get(HEADER.decode(), "").encode("latin-1")
        if answer.status != 200:
            raise TopologyError(f"status {answer.status}: {encoded[:500]!r}")
        if signed and not signed.is_answer(answer.status, encoded, signature):
            raise TopologyError("its signature by the cluster secret is not valid")
        if not reference.refers_to(encoded):
            raise TopologyError(f"{len(encoded)} bytes that are not the requested topology")
        return encoded
