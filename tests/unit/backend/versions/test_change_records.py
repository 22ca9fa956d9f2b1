"""How an instance reads the records of a topic of changes, without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from backend.cluster import change_log
from backend.cluster.change_log import ChangeLog
from backend.version_follower import versions_of
from model.versions import States, VersionState, encode_record

ID = b"1234"
STATE = VersionState(1).switched_to(2)


class Message:
    """A record with a change of this instance."""

    def value(self) -> bytes:
        return encode_record("orders", STATE, 0)

    def offset(self) -> int:
        return 0

    def headers(self) -> list[tuple[str, bytes]]:
        return [("id", ID)]


def log_of(on_change: Any) -> ChangeLog[VersionState]:
    settings = {"bootstrap.servers": "127.0.0.1:1"}
    return ChangeLog(settings, "app", 1.0, versions_of("app"), on_change)


@pytest.mark.parametrize("are_read_together", [True, False])
def test_a_change_that_is_sent_twice_is_no_conflict(are_read_together: bool) -> None:
    """Kafka's client sends a record again if the broker's answer is lost."""
    seen: list[States] = []
    log = log_of(seen.append)
    reading: change_log._Reading[VersionState] = change_log._Reading()
    outcome = log._waiting[ID] = change_log._Outcome()
    message: Any = Message()
    for is_last in (False, True):
        log._apply(reading, message)
        if is_last or not are_read_together:
            log._publish(reading)
    assert outcome.is_known.is_set()
    assert outcome.counts
    assert seen == [{"orders": STATE}]


def test_a_change_that_could_not_be_applied_is_applied_again() -> None:
    seen: list[States] = []
    is_failing = False

    def apply(states: States) -> None:
        if is_failing:
            raise OSError("too many open files")
        seen.append(states)

    log = log_of(apply)
    reading: change_log._Reading[VersionState] = change_log._Reading()
    log._publish(reading)
    message: Any = Message()
    log._apply(reading, message)
    is_failing = True
    with pytest.raises(OSError, match="too many"):
        log._publish(reading)
    is_failing = False
    log._publish(reading)
    assert seen == [{}, {"orders": STATE}]
