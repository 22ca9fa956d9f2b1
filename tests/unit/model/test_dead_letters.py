"""The form of dead letters, and their bounds."""

from __future__ import annotations

import pytest

from model.dead_letters import MAX_HEADERS_BYTES, Rejected, dead_letter
from model.kafka.headers import Header


def letter(
    value: bytes | None, headers: list[Header], key: bytes | None = b"k", reason: str = "why"
) -> tuple[bytes, bytes, dict[str, bytes | None]]:
    record = Rejected("raw", 2, 7, 1000, key, value, headers)
    made_key, made_value, made_headers = dead_letter(record, reason, "me")
    return made_key, made_value, dict(made_headers)


def test_a_dead_letter_says_what_the_record_was() -> None:
    assert letter(b"v", [("a", b"1")]) == (
        b"raw:2:7",
        b"v",
        {
            "reason": b"why",
            "source-topic": b"raw",
            "source-partition": b"2",
            "source-offset": b"7",
            "source-timestamp": b"1000",
            "source-key": b"k",
            "by": b"me",
            "source-header-a": b"1",
        },
    )


def test_a_null_value_is_not_a_tombstone() -> None:
    _, value, headers = letter(None, [], key=None)
    assert value == b""
    assert headers["source-value"] == b"null"
    assert "source-key" not in headers
    assert "source-value" not in letter(b"", [])[2]


@pytest.mark.parametrize(
    "headers",
    [[("a", b"x" * MAX_HEADERS_BYTES)], [("é" * MAX_HEADERS_BYTES, None)], [("", b"")] * 10_000],
)
def test_headers_that_are_too_long_are_left_out(headers: list[Header]) -> None:
    made = letter(b"v", headers)[2]
    assert int(made["source-headers-bytes"] or b"") > MAX_HEADERS_BYTES
    assert not any(name.startswith("source-header-") for name in made)


def test_a_reason_is_truncated() -> None:
    """Regression: the error of a custom format may have the whole value. Then the letter was too
    large to be sent, and the producer did not get the letters after it either."""
    made = letter(b"v", [], reason="Invalid isoformat string: " + "é" * 1_000_000)[2]
    assert (made["reason"] or b"").decode() == "Invalid isoformat string: " + "é" * 4_070


def test_a_reason_that_is_no_unicode_text_is_escaped() -> None:
    """Regression: the error ended ingest, again after each restart."""
    assert letter(b"v", [], reason="no date: \udcff")[2]["reason"] == b"no date: \\udcff"
