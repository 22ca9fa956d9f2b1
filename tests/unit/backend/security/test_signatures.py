"""The cluster secret, signatures, and the window in which each is accepted once."""

from __future__ import annotations

import hmac
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.instance.settings import is_loopback
from backend.security.cluster import ClusterAccess, Refused, SignatureVerifier
from backend.security.cluster_secret import ClusterSecret, keys_of, parse
from backend.security.replay_window import WINDOW_MS, ReplayWindow
from backend.security.signatures import (
    HEADER,
    AnswerMac,
    Purpose,
    Signer,
    mac_of,
    parse_signature,
)
from backend.wire.answer import Answer
from model.problems import ConfigurationError
from tests.support.examples import examples
from tests.support.security.cluster_secret import (
    OTHER_SECRET,
    SECRET,
    cluster_secret,
    write_secrets,
)

PATH = b"/internal/scan"


class Clock:
    """A clock that a test sets; s."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def secret(tmp_path: Path) -> ClusterSecret:
    return cluster_secret(tmp_path)


def why(verifier: SignatureVerifier, header: bytes | None, *more: Any) -> str:
    """Why a signature is refused."""
    purposes, method, target = more or ((Purpose.PEER,), "POST", PATH)
    with pytest.raises(Refused) as error:
        verifier.verify(purposes, method, target, header)
    assert (error.value.status, error.value.code) == (403, "not-a-member")
    assert SECRET not in str(error.value)
    return error.value.kind


def test_a_signature_is_for_one_request_to_one_instance(
    secret: ClusterSecret, clock: Clock
) -> None:
    verifier, signer = SignatureVerifier(secret, "b1", clock), Signer(secret, clock=clock)
    sent = signer.sign("POST", PATH, "b1", b"body")
    for more in (
        ((Purpose.PEER,), "GET", PATH),
        ((Purpose.PEER,), "POST", PATH + b"s"),
        ((Purpose.PEER,), "POST", PATH + b"?a"),
        ((Purpose.PROXY,), "POST", PATH),
    ):
        assert why(verifier, sent.header, *more) == "wrong"
    assert why(SignatureVerifier(secret, "b2", clock), sent.header) == "wrong"
    assert why(verifier, signer.sign("POST", PATH, "*", b"body").header) == "wrong", (
        "a signature for any instance is only for a GET"
    )
    verified = verifier.verify((Purpose.PEER,), "POST", PATH, sent.header)
    verified.check_body(b"body")
    with pytest.raises(Refused, match="not the one that was signed"):
        verified.check_body(b"Body")


def test_every_changed_byte_is_noticed(secret: ClusterSecret, clock: Clock) -> None:
    verifier = SignatureVerifier(secret, "b1", clock)
    header = Signer(secret, clock=clock).sign("POST", PATH, "b1", b"body").header
    for at in range(len(header)):
        changed = header[:at] + bytes([header[at] ^ 1]) + header[at + 1 :]
        assert why(verifier, changed) in ("wrong", "malformed"), at
        assert why(verifier, header[:at]) in ("wrong", "malformed"), at
    assert why(verifier, None) == "none"
    verifier.verify((Purpose.PEER,), "POST", PATH, header)


@settings(max_examples=examples(100))
@given(st.binary(max_size=300) | st.from_regex(rb"[0-9]{1,20}:[0-9a-f]{0,50}(:[0-9a-f]{64}){2}"))
def test_no_other_header_is_a_signature(value: bytes) -> None:
    found = parse_signature(value)
    assert found is None or found.header().lstrip(b"0") == value.lstrip(b"0")


def test_a_signature_is_accepted_once_and_in_time(secret: ClusterSecret, clock: Clock) -> None:
    started, at = clock.now, Clock()
    verifier, signer = SignatureVerifier(secret, "b1", clock), Signer(secret, clock=at)

    def signed() -> bytes:
        return signer.sign("POST", PATH, "b1").header

    header = signed()
    verifier.verify((Purpose.PEER,), "POST", PATH, header)
    assert why(verifier, header) == "replay"
    at.now = started - 1
    assert why(verifier, signed()) == "early", "it was signed before the instance started"
    clock.now += 100
    for difference, accepted in ((-29, True), (29, True), (-31, False), (31, False)):
        at.now = clock.now + difference
        header = signed()
        if accepted:
            verifier.verify((Purpose.PEER,), "POST", PATH, header)
            for later in (0.0, 10.0, 29.0):
                clock.now += later
                assert why(verifier, header) in ("replay", "time")
                clock.now -= later
        else:
            assert why(verifier, header) == "time"


def test_a_message_from_before_the_start_says_nothing_about_clocks(
    secret: ClusterSecret, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: at each start on one machine, the log said that clocks differed: a message had
    been on its way, or had waited in the socket until the worker listened."""
    signer = Signer(secret, clock=Clock(clock.now - 17.5))
    access = ClusterAccess(secret, "b1", clock)
    header = signer.sign("POST", PATH, "b1").header
    with (
        caplog.at_level("INFO"),
        pytest.raises(Refused, match="sent before this instance") as error,
    ):
        access.admit((Purpose.PEER,), "POST", PATH, header, "127.0.0.1")
    assert (error.value.kind, caplog.records) == ("early", [])
    assert "clock" not in str(error.value)


def test_the_log_names_the_difference_of_the_clocks_once(
    secret: ClusterSecret, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    access = ClusterAccess(secret, "b1", clock)
    signer = Signer(secret, clock=Clock(clock.now + 45))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            header = signer.sign("POST", PATH, "b1").header
            with pytest.raises(Refused, match=r"differs .* by \+45\.0 s"):
                access.admit((Purpose.PEER,), "POST", PATH, header, "10.0.0.9")
    (line,) = [r.message for r in caplog.records if "+45.0 s" in r.message]
    assert "10.0.0.9" in line


def test_keys_differ_by_purpose_and_application() -> None:
    keys = {key for app in ("a", "b") for key in keys_of(SECRET.encode(), app)}
    assert len(keys) == 7, "proxies do not know the application"
    assert keys.isdisjoint(keys_of(OTHER_SECRET.encode(), "a"))


def test_both_secrets_verify_and_the_first_one_signs(tmp_path: Path, clock: Clock) -> None:
    old, new = cluster_secret(tmp_path), cluster_secret(tmp_path, OTHER_SECRET)
    both = cluster_secret(tmp_path, OTHER_SECRET, SECRET)
    assert why(SignatureVerifier(old, "b1", clock), Signer(new).sign("POST", PATH, "b1").header)
    for of in (old, new, both):
        sent = Signer(of, clock=clock).sign("POST", PATH, "b1")
        sender = SignatureVerifier(both, "b1", clock).verify(
            (Purpose.PEER,), "POST", PATH, sent.header
        )
        answer = Answer(200, [], b"answer")
        sender.sign(answer)
        [(name, value)] = answer.headers
        assert name == HEADER
        assert sent.is_answer(200, b"answer", value), "with the secret that the sender knows"
    SignatureVerifier(new, "b1", clock).verify(
        (Purpose.PEER,), "POST", PATH, Signer(both, clock=clock).sign("POST", PATH, "b1").header
    )


def test_an_answer_belongs_to_its_request(secret: ClusterSecret, clock: Clock) -> None:
    verifier, signer = SignatureVerifier(secret, "b1", clock), Signer(secret, clock=clock)
    sent, other = (signer.sign("POST", PATH, "b1") for _ in range(2))
    answer = Answer(200, [], b"a")
    verifier.verify((Purpose.PEER,), "POST", PATH, sent.header).sign(answer)
    [(_, value)] = answer.headers
    assert sent.is_answer(200, b"a", value)
    assert not other.is_answer(200, b"a", value)
    for status, body, given_value in (
        (503, b"a", value), (200, b"b", value), (200, b"a", None), (200, b"a", b""),
        (200, b"a", sent.header),
    ):  # fmt: skip
        assert not sent.is_answer(status, body, given_value)


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(-40_000, 40_000), st.integers(0, 20_000)),
        max_size=60,
    ),
    st.integers(2, 40),
)
def test_no_signature_is_accepted_twice(events: list[tuple[int, int, int]], most: int) -> None:
    """Signatures come again, from clocks that differ, while time goes on; memory is bounded."""
    now = 1_800_000_000_000
    window, accepted = ReplayWindow(now, most), set[bytes]()
    times: dict[bytes, int] = {}
    for number, difference, later in events:
        now += later
        mac = b"%064x" % (number << 200)
        at = times.setdefault(mac, now + difference)
        if window.is_within(at, now) and window.add(mac, at, now):
            assert mac not in accepted
            assert abs(now - at) <= WINDOW_MS
            accepted.add(mac)
        assert len(window) <= most


def test_when_the_clock_is_set_back_signatures_are_accepted_again() -> None:
    window = ReplayWindow(1_800_000_000_000)
    now = 1_800_000_000_000 - 3_600_000
    assert window.is_within(now, now)
    assert window.add(b"a" * 64, now, now)
    assert not window.add(b"a" * 64, now, now)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "it has 0 secrets"),
        (b"\n\n", "it has 0 secrets"),
        (f"{SECRET[:31]}\n".encode(), "a secret has 31 bytes; at least 32"),
        (f"{SECRET}\n{SECRET[:9]}".encode(), "a secret has 9 bytes"),
        (f"{SECRET}\n{SECRET}\n{SECRET}".encode(), "it has 3 secrets"),
        (b"x" * 5000, "more than 4096 bytes"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, error: str) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as found:
        ClusterSecret(path, "a")
    assert str(found.value).startswith(f"QUERYABLE_CLUSTER_SECRET_FILE: {path}: ")
    assert error in str(found.value)
    assert SECRET[:9] not in str(found.value)


def test_lines_are_stripped() -> None:
    assert parse(f"\r\n {SECRET}\r\n\n{OTHER_SECRET}".encode()) == [
        SECRET.encode(),
        OTHER_SECRET.encode(),
    ]


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = write_secrets(tmp_path / "secret", SECRET)
    own = os.getuid()
    for mode in (0o604, 0o620, 0o602, *((0o640,) if own else ())):
        path.chmod(mode)
        with pytest.raises(ConfigurationError, match="chmod 600"):
            ClusterSecret(path, "a")
    for mode in (0o600, 0o400, *(() if own else (0o640, 0o440))):
        path.chmod(mode)
        ClusterSecret(path, "a")
    with pytest.raises(ConfigurationError, match="No such file"):
        ClusterSecret(tmp_path / "missing", "a")


def test_the_file_is_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(0.0)
    path = write_secrets(tmp_path / "secret", SECRET)
    secret = ClusterSecret(path, "a", clock)
    old, new = keys_of(SECRET.encode(), "a"), keys_of(OTHER_SECRET.encode(), "a")
    write_secrets(path, SECRET, OTHER_SECRET)
    assert secret.current() == (old,), "not yet"
    clock.now += 1
    assert secret.current() == (old, new)
    for damage in (path.unlink, lambda: write_secrets(path, "short"), lambda: path.chmod(0o644)):
        damage()
        clock.now += 1
        with caplog.at_level(logging.WARNING):
            assert secret.current() == (old, new), "the previous ones stay"
    assert "The previous cluster secrets stay in use" in caplog.text
    assert SECRET not in caplog.text
    write_secrets(path, OTHER_SECRET)
    clock.now += 1
    assert secret.current() == (new,)


def test_addresses_of_this_machine() -> None:
    for host in ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"):
        assert is_loopback(host)
    for host in ("", "10.0.0.1", "0.0.0.0", "::", "fe80::1", "::ffff:10.0.0.1", "128.0.0.1"):
        assert not is_loopback(host)


def test_the_hmac_is_as_documented() -> None:
    """A vector, computed with `openssl dgst -sha256 -hmac`."""
    body_hash = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    found = mac_of(b"key", "GET", b"/processors", 1_800_000_000_000, b"0a", body_hash, "*")
    assert found == b"d31dea80054e576b1b90a3c57ad294dfb55df40d3c572417bc01ad5b7c8b7c55"


@given(st.binary(max_size=200), st.binary(max_size=200), st.lists(st.binary(), max_size=3))
def test_hmacs_are_those_of_the_library(key: bytes, target: bytes, lines: list[bytes]) -> None:
    text = b"GET\n%b\n7\n0a\n%b\nb1" % (target, target)
    assert (
        mac_of(key, "GET", target, 7, b"0a", target, "b1")
        == hmac.digest(key, text, "sha256").hex().encode()
    )
    mac = AnswerMac(key, target)
    for number in range(len(lines) + 1):
        text = b"\n".join([target, *lines[:number]])
        assert mac.hex() == hmac.digest(key, text, "sha256").hex().encode()
        mac.add(b"".join(lines[number : number + 1]))
