"""Which Host names, origins and kinds of requests are served."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.security.browser_rules import (
    BrowserRules,
    is_allowed_host,
    parse_hosts,
    parse_origins,
    preflight,
)
from model.problems import BadRequest, ConfigurationError, Forbidden

HOST = (b"host", b"127.0.0.1:8081")
CROSS = (b"sec-fetch-site", b"cross-site")
NAVIGATION = [(b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"document")]
APP = (b"origin", b"https://app.example.com")

RULES = BrowserRules(parse_hosts("q.example.com, .internal.example.com"))
WITH_CORS = BrowserRules((), parse_origins("https://app.example.com"))


@pytest.mark.parametrize(
    "host",
    [
        "", "127.0.0.1", "127.0.0.1:8081", "10.1.2.3:80", "[::1]:8081", "[fe80::1]", "localhost",
        "LOCALHOST:8080", "localhost.:8080", "a.localhost", "backend-1:8081", "q.example.com",
        "Q.Example.Com.:443", "a.internal.example.com", "a.b.internal.example.com", "b_1:",
    ],
)  # fmt: skip
def test_hosts_that_are_allowed(host: str) -> None:
    assert RULES.allows_host(host.encode())
    assert RULES.allows_host(host.encode()), "also when it is known"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8081", "q.example.com.evil.example", "aq.example.com",
        "internal.example.com", "evilinternal.example.com", "127.0.0.1.evil.example",
        "127.0.0.1@evil.example", "evil.example#localhost", "localhost/evil.example",
        "localhost,evil.example", "1.2.3", "1.2.3.4.5", "[::1", "::1:80", "[::1]evil.example",
        "[127.0.0.1].evil.example", "localhost:80:80", "localhost:x", "a b", "a\tb", "xn--e1a.com",
        "b\xfccher", "localhost\x00", ".", "..", ".localhost", "a..localhost",
    ],
)  # fmt: skip
def test_hosts_that_are_refused(host: str) -> None:
    assert not RULES.allows_host(host.encode("latin-1"))
    assert not RULES.allows_host(host.encode("latin-1")), "also when it is known"


def test_any_host_can_be_allowed() -> None:
    assert BrowserRules(parse_hosts("*")).allows_host(b"evil.example")


@given(st.ip_addresses(), st.none() | st.integers(0, 65535))
def test_every_ip_address_is_allowed(address: object, port: int | None) -> None:
    text = str(address)
    host = f"[{text}]" if ":" in text else text
    assert is_allowed_host(f"{host}{'' if port is None else f':{port}'}".encode(), frozenset())


@given(st.text("ab.:[]01-@/\\ %LOCALHOSTlocalhost", max_size=20) | st.text(max_size=8))
@example("[::ffff:1.2.3.4]:1")
def test_an_allowed_host_is_an_address_a_name_without_dots_or_below_localhost(host: str) -> None:
    raw = host.encode()
    if not raw or not is_allowed_host(raw, frozenset()):
        return
    bare = host.rpartition("]")[0].strip("[") if host[0] == "[" else host.split(":")[0]
    name = bare.lower().removesuffix(".")
    if "." in name or ":" in name:
        assert name.endswith(".localhost") or ip_address(name)
    assert not set(host) & set("@/\\ %")


@given(st.lists(st.sampled_from(["a.example", "b.example:80", "localhost"]), max_size=2000))
def test_few_decisions_are_remembered(hosts: list[str]) -> None:
    rules = BrowserRules()
    for number, host in enumerate(hosts):
        rules.allows_host(f"{number}.{host}".encode())
    rules.allows_host(b"a" * 301)
    assert len(rules._known) <= 1000
    assert b"a" * 301 not in rules._known


def refusal(rules: BrowserRules, method: str, path: bytes, *headers: tuple[bytes, bytes]) -> str:
    with pytest.raises(Forbidden) as refused:
        rules.admit(method, path, [HOST, *headers])
    return refused.value.code


def test_programs_are_not_restricted() -> None:
    for headers in ([], [HOST], [HOST, (b"user-agent", b"curl/8")]):
        assert RULES.admit("POST", b"/topics/t/records", headers) == []


def test_a_foreign_host_is_refused() -> None:
    with pytest.raises(Forbidden) as refused:
        RULES.admit("GET", b"/views", [(b"host", b"evil.example:8081")])
    assert (refused.value.status, refused.value.code) == (403, "host-not-allowed")
    assert "QUERYABLE_ALLOWED_HOSTS" in refused.value.detail


def test_two_hosts_are_refused() -> None:
    with pytest.raises(BadRequest):
        RULES.admit("GET", b"/views", [HOST, (b"host", b"localhost")])


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize("path", [b"/views", b"/words/a", b"/topics/t/records", b"/admin"])
@pytest.mark.parametrize(
    "headers",
    [
        [CROSS],  # <img>, <script>, fetch with no-cors
        [CROSS, (b"sec-fetch-site", b"none")],
        [(b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"iframe"), CROSS],
        [(b"origin", b"https://evil.example")],  # a form, or fetch
        [(b"origin", b"null")],  # a sandboxed page, or a file
        [(b"origin", b"http://127.0.0.1:3000")],  # another server on this machine
        [(b"origin", b"https://evil.example"), (b"sec-fetch-site", b"same-origin")],
        [(b"origin", b"http://127.0.0.1:8081"), (b"origin", b"https://evil.example")],
        [(b"origin", b"http://127.0.0.1:8081@evil.example")],
        [(b"origin", b"ftp://127.0.0.1:8081")],
        [(b"origin", b"")],
    ],
)
def test_requests_of_other_sites_are_refused(
    method: str, path: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    assert refusal(RULES, method, path, *headers) == "cross-site"


@pytest.mark.parametrize(
    "headers",
    [
        [(b"sec-fetch-site", b"same-origin")],
        [(b"sec-fetch-site", b"none")],
        [(b"origin", b"http://127.0.0.1:8081"), (b"sec-fetch-site", b"same-origin")],
        [(b"origin", b"https://127.0.0.1:8081")],  # a proxy has ended TLS
    ],
)
def test_requests_of_own_pages_are_served(headers: list[tuple[bytes, bytes]]) -> None:
    assert RULES.admit("POST", b"/views/v/search", [HOST, *headers]) == []


def test_an_origin_has_no_default_port() -> None:
    for host in (b"q.example.com", b"q.example.com:443"):
        headers = [(b"host", host), (b"origin", b"https://q.example.com")]
        assert RULES.admit("POST", b"/views/v/search", headers) == []
    headers = [(b"host", b"q.example.com:80"), (b"origin", b"https://q.example.com")]
    with pytest.raises(Forbidden):
        RULES.admit("POST", b"/views/v/search", headers)


def test_other_sites_may_link_to_the_admin_page_and_to_nothing_else() -> None:
    for path in (b"/admin", b"/admin/"):
        assert RULES.admit("GET", path, [HOST, CROSS, *NAVIGATION]) == []
        assert refusal(RULES, "POST", path, CROSS, *NAVIGATION) == "cross-site"
    for path in (b"/views", b"/words/a", b"/admin/topology.json", b"/metrics"):
        assert refusal(RULES, "GET", path, CROSS, *NAVIGATION) == "cross-site"


def test_a_listed_origin_may_read_and_append() -> None:
    added = dict(WITH_CORS.admit("POST", b"/topics/t/records", [HOST, APP, CROSS]))
    assert added[b"access-control-allow-origin"] == APP[1]
    assert added[b"vary"] == b"origin"
    assert b"Topology-Epoch" in added[b"access-control-expose-headers"]
    assert b"access-control-allow-credentials" not in added
    for origin in (b"https://app.example.com.evil.example", b"http://app.example.com", b"null"):
        assert refusal(WITH_CORS, "GET", b"/views", (b"origin", origin)) == "cross-site"
    assert WITH_CORS.admit("GET", b"/views", [HOST]) == [(b"vary", b"origin")]


def test_a_preflight_of_a_listed_origin_is_answered() -> None:
    headers = [HOST, APP, (b"access-control-request-method", b"POST")]
    added = WITH_CORS.admit("OPTIONS", b"/topics/t/records", headers)
    answer = preflight("OPTIONS", headers, added)
    assert answer is not None
    assert answer.status == 204
    assert b"Authorization" in dict(answer.headers)[b"access-control-allow-headers"]
    assert preflight("GET", headers, added) is None
    assert preflight("OPTIONS", headers[:2], added) is None
    assert preflight("OPTIONS", headers, []) is None


@pytest.mark.parametrize("text", ["http://a.example", "a.example:80", "a b", "*.a.example", "a,/"])
def test_an_invalid_host_name_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="QUERYABLE_ALLOWED_HOSTS"):
        parse_hosts(text)


@pytest.mark.parametrize(
    "text", ["*", "null", "app.example.com", "https://a/b", "https://a:443", "https://*.a.example"]
)
def test_an_invalid_origin_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="QUERYABLE_CORS_ORIGINS"):
        parse_origins(text)


def test_origins_are_compared_as_browsers_send_them() -> None:
    origins = parse_origins(" https://APP.example.com/ ,http://[::1]:3000,")
    assert origins == {"https://app.example.com", "http://[::1]:3000"}
