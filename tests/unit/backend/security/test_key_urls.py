"""Keys from URLs: how they change, and what happens while a URL is away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from backend.security import keys as key_sources
from backend.security.key_formats import MAX_BYTES, parse_jwk_set
from backend.security.keys import TokenKeys, UrlSource
from backend.security.tokens import TokenVerifier
from local.waiting import wait_until
from model.problems import Unauthenticated, Unavailable
from tests.support.in_process.avro_examples import FakeRegistry, registry
from tests.support.security.signing_keys import PRIVATE, jwk, jwk_set, signed
from tests.unit.model.http.servers import HEADS, dripping, proxy
from tests.unit.queryable.client.fake_server import RequestHandler, serving

PATH = "/keys"


@pytest.fixture
def issuer() -> Iterator[FakeRegistry]:
    with registry() as server:
        yield server


def publish(issuer: FakeRegistry, *keys: dict[str, Any]) -> None:
    issuer.answers[PATH] = (200, jwk_set(*keys))


def from_url(issuer: FakeRegistry, **given: float) -> TokenKeys:
    source = UrlSource("SETTING", issuer.url + PATH, **{"interval": 60, "max_age": 3600, **given})
    return TokenKeys(source, lambda content: parse_jwk_set(content, with_secrets=False))


FIRST = jwk("ES256", PRIVATE["ES256"], kid="first")
SECOND = jwk("EdDSA", PRIVATE["EdDSA"], kid="second")
BY_FIRST = {"algorithm": "ES256", "headers": {"kid": "first"}}
BY_SECOND = {"algorithm": "EdDSA", "headers": {"kid": "second"}}


def test_keys_that_vanish_from_the_set_are_refused_after_the_refresh(issuer: FakeRegistry) -> None:
    publish(issuer, FIRST, SECOND)
    keys = from_url(issuer)
    verifier = TokenVerifier(keys)
    token = signed(**BY_FIRST)
    with pytest.raises(Unavailable) as error:
        verifier.identity(token)  # nothing was fetched yet: the token may be valid
    assert error.value.code == "keys-unavailable"
    keys.refresh()
    assert verifier.identity(token).subject == "test"
    publish(issuer, SECOND)
    keys.refresh()
    assert verifier.known(token) is None
    with pytest.raises(Unauthenticated):
        verifier.identity(token)
    assert verifier.identity(signed(**BY_SECOND)).subject == "test"


def test_a_key_is_for_its_id(issuer: FakeRegistry) -> None:
    publish(issuer, FIRST, SECOND)
    keys = from_url(issuer)
    keys.refresh()
    verifier = TokenVerifier(keys)
    with pytest.raises(Unauthenticated):
        verifier.identity(signed("ES256", headers={"kid": "second"}))
    assert verifier.identity(signed("ES256")).subject == "test"  # without an id: all are tried


def test_few_keys_are_tried_for_a_forged_token(issuer: FakeRegistry) -> None:
    publish(issuer, *({**FIRST, "kid": str(n)} for n in range(20)))
    keys = from_url(issuer)
    keys.refresh()
    assert len(keys.keys(None, "ES256")) == 8
    assert len(keys.keys("19", "ES256")) == 1


def test_keys_stay_usable_while_the_url_is_away(
    issuer: FakeRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    publish(issuer, FIRST)
    keys = from_url(issuer)
    keys.refresh()
    token = signed(**BY_FIRST)
    verifier = TokenVerifier(keys)
    for answer in ((503, b"away"), (200, b"<html>"), (200, bytes(MAX_BYTES + 1)),
                   (302, b"")):  # fmt: skip
        issuer.answers[PATH] = answer
        keys.refresh()
        assert verifier.identity(token).subject == "test"
    issuer.close()
    keys.refresh()
    assert verifier.identity(token).subject == "test"
    # a key that is not known may be new
    with pytest.raises(Unavailable):
        verifier.identity(signed(**BY_SECOND))
    assert "it answers with status 503" in caplog.text
    assert f"the answer has more than {MAX_BYTES} bytes" in caplog.text


def test_an_unknown_key_is_fetched_once(issuer: FakeRegistry) -> None:
    publish(issuer, FIRST)
    keys = from_url(issuer, interval=3600, min_interval=0)
    verifier = TokenVerifier(keys)
    keys.start()
    try:
        wait_until(lambda: keys.algorithms == {"ES256"}, 10, "the first key")
        publish(issuer, FIRST, SECOND)
        token = signed(**BY_SECOND)
        with pytest.raises(Unavailable):
            verifier.identity(token)
        wait_until(lambda: "EdDSA" in keys.algorithms, 10, "the second key")
        assert verifier.identity(token).subject == "test"
    finally:
        keys.stop()
    assert not keys._thread.is_alive()
    assert len(issuer.asked) == 2


@pytest.mark.slow
def test_a_key_that_is_published_soon_after_a_read_is_not_refused(issuer: FakeRegistry) -> None:
    """The set must not be read again yet, so it is not known whether the key is in it."""
    publish(issuer, FIRST)
    keys = from_url(issuer, interval=3600, min_interval=0.5)
    verifier = TokenVerifier(keys)
    keys.start()
    try:
        wait_until(lambda: keys.algorithms == {"ES256"}, 10, "the first key")
        publish(issuer, FIRST, SECOND)
        token = signed(**BY_SECOND)
        for _ in range(2):
            with pytest.raises(Unavailable) as error:
                verifier.identity(token)
            assert error.value.code == "keys-unavailable"
        wait_until(lambda: "EdDSA" in keys.algorithms, 10, "the second key")
        assert verifier.identity(token).subject == "test"
    finally:
        keys.stop()
    assert len(issuer.asked) == 2


def test_unknown_keys_do_not_cause_many_requests(issuer: FakeRegistry) -> None:
    publish(issuer, FIRST)
    keys = from_url(issuer, interval=3600, min_interval=3600)
    verifier = TokenVerifier(keys)
    keys.start()
    try:
        wait_until(lambda: keys.algorithms == {"ES256"}, 10, "the first key")
        for n in range(200):
            with pytest.raises(Unavailable):
                verifier.identity(signed("ES256", headers={"kid": f"forged {n}"}))
        assert len(keys._wanted) < 100
        time.sleep(0.1)
        assert len(issuer.asked) == 1
    finally:
        keys.stop()
    assert not keys._thread.is_alive()


def test_a_key_that_was_not_found_is_refused(issuer: FakeRegistry) -> None:
    """Also one that has been removed: its tokens are not told to come again."""
    publish(issuer, FIRST, SECOND)
    keys = from_url(issuer, min_interval=3600)
    keys.refresh()
    verifier = TokenVerifier(keys)
    forged = signed("ES256", headers={"kid": "forged"})
    with pytest.raises(Unavailable):
        verifier.identity(forged)
    publish(issuer, SECOND)
    keys.refresh()
    for token in (forged, signed(**BY_FIRST)):
        with pytest.raises(Unauthenticated):
            verifier.identity(token)
    publish(issuer, FIRST)
    keys.refresh()
    assert verifier.identity(signed(**BY_FIRST)).subject == "test"


def test_a_url_is_read_again_each_interval(issuer: FakeRegistry) -> None:
    """So a key that is removed is refused within the interval."""
    publish(issuer, FIRST, SECOND)
    keys = from_url(issuer, interval=0.05, min_interval=0.01)
    keys.start()
    try:
        wait_until(lambda: len(keys.algorithms) == 2, 10, "both keys")
        publish(issuer, SECOND)
        wait_until(lambda: keys.algorithms == {"EdDSA"}, 10, "the first key to vanish")
    finally:
        keys.stop()


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_url_that_drips_is_not_waited_for(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: there was no limit for the head, nor for the size of a chunk."""
    monkeypatch.setattr(key_sources, "_TIMEOUT", 0.2)
    with dripping(head) as url, pytest.raises(ValueError, match="no answer in time"):
        UrlSource("SETTING", url, 60, 3600).read()


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "")
    with proxy() as running:
        monkeypatch.setenv("http_proxy", running.url)
        assert UrlSource("SETTING", "http://issuer.test/keys", 60, 3600).read() == b"by the proxy"
    assert running.heads[0].startswith("GET http://issuer.test/keys ")


def test_a_redirect_is_not_followed(issuer: FakeRegistry) -> None:
    publish(issuer, FIRST)
    with (
        serving(lambda request: request.respond(302, b"", Location=issuer.url + PATH)) as server,
        pytest.raises(ValueError, match="status 302"),
    ):
        UrlSource("SETTING", server.url, 60, 3600).read()
    assert issuer.asked == []


def test_a_set_that_has_not_changed_is_not_sent_again() -> None:
    sets = {"1": jwk_set(FIRST), "2": jwk_set(SECOND)}
    current, asked = ["1"], []

    def respond(request: RequestHandler) -> None:
        asked.append(request.headers["If-None-Match"])
        [version] = current
        if asked[-1] == version:
            request.respond(304, b"", ETag=version)
        else:
            request.respond(200, sets[version], ETag=version)

    with serving(respond) as server:
        source = UrlSource("SETTING", server.url, 60, 3600)
        keys = TokenKeys(source, lambda content: parse_jwk_set(content, with_secrets=False))
        for _ in range(2):
            keys.refresh()
            assert keys.algorithms == {"ES256"}
        current[:] = "2"
        for _ in range(2):
            keys.refresh()
            assert keys.algorithms == {"EdDSA"}
    assert asked == [None, "1", "1", "2"]


def test_a_set_that_cannot_be_read_is_asked_for_again() -> None:
    """Regression: the ETag of an incomplete set was sent from then on, and 304 came back."""
    whole, asked = jwk_set(FIRST), []

    def respond(request: RequestHandler) -> None:
        asked.append(request.headers["If-None-Match"])
        if asked[-1] is not None:
            request.respond(304, b"", ETag="1")
        elif len(asked) == 1:
            request.send_response(200)
            request.send_header("ETag", "1")
            request.send_header("Content-Length", str(len(whole)))
            request.end_headers()
            request.wfile.write(whole[:-9])
            request.close_connection = True
        elif len(asked) == 2:
            request.respond(200, whole[:-9], ETag="1")  # complete for HTTP, but no JSON
        else:
            request.respond(200, whole, ETag="1")

    with serving(respond) as server:
        source = UrlSource("SETTING", server.url, 60, 3600)
        keys = TokenKeys(source, lambda content: parse_jwk_set(content, with_secrets=False))
        found = []
        for _ in range(4):
            keys.refresh()
            found.append(keys.algorithms)
    assert found == [set(), set(), {"ES256"}, {"ES256"}]
    assert asked == [None, None, None, "1"]


def test_keys_that_are_too_old_are_forgotten(
    issuer: FakeRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    publish(issuer, FIRST)
    keys = from_url(issuer, max_age=0.0)
    keys.refresh()
    verifier, token = TokenVerifier(keys), signed(**BY_FIRST)
    assert verifier.identity(token).subject == "test"
    issuer.answers[PATH] = (503, b"away")
    keys.refresh()
    assert verifier.known(token) is None
    with pytest.raises(Unavailable) as error:
        verifier.identity(token)
    assert error.value.code == "keys-unavailable"
    assert "its keys are too old" in caplog.text
    publish(issuer, FIRST)
    keys.refresh()
    assert verifier.identity(token).subject == "test"
