"""The numbers of an instance that are the same in every deployment.

They are not settings: other numbers depend on them, here, in other instances or in nginx, and a
deployment that changes one of them breaks the others.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """Times are in seconds. The composition root gets one; tests and measurements give others."""

    broker_timeout: float = 5.0
    """For one request to the broker."""
    start_timeout: float = 30.0
    """How long an instance waits for the broker at its start before it gives up."""
    polls_per_leader_look: float = 5.0
    """The leader itself looks for new partitions once in so many polls of the log ends. Usually it
    learns of them before that, from the members."""
    group_record_bytes: int = 900_000
    """The size of the group's record above which the leader sends a reference instead of the
    topology. A broker accepts 1,048,588 bytes by default."""
    copy_threshold: int = 100_000
    """The records of a partition for which a copy of another instance's store is faster than
    reading the topic."""

    wait_timeout: float = 0.2
    """How long a read waits for an instance that can answer. It is less than the 0.4 s for which
    nginx and instances wait for an answer while they can ask another instance."""
    forward_timeout: float = 2.0
    """For a forwarded read, at all replicas together. `/processors` has it, because nginx waits
    half a second longer; above 5 s, its own limit for all attempts would be too short."""
    heartbeat_interval: float = 0.25
    """Between two heartbeats that are missed. An instance is dead after four. The instances that
    share partitions must have the same interval."""
    drain_time: float = 1.5
    """How long a stopping instance still answers if others take over. nginx reads the topology
    every second, ± 20 %."""

    max_key_bytes: int = 8192
    """The largest key in a request. `/processors` has it, because nginx does not parse longer ones.
    Percent-encoded, it still fits into a request line of 32 KiB."""
    request_timeout: float = 30.0
    """Within which a complete request must arrive."""
    send_timeout: float = 60.0
    """After which a client that reads nothing of its answer is disconnected."""
