"""What a proxy or an instance says about the client of a request, and what of it is believed."""

from __future__ import annotations

import pytest

from backend.security.client_claims import (
    HEADER,
    VALID_MS,
    ClientClaim,
    address_for_logs,
    claim,
    claim_in,
    client_of,
    client_of_subject,
    is_in,
    parse_networks,
)
from backend.security.cluster_secret import keys_of
from model.problems import ConfigurationError

NOW = 1_800_000_000_000
KEYS = keys_of(b"s" * 32, "of an instance")


def found(*values: bytes, secrets: bytes = b"s", now: int = NOW) -> ClientClaim | None:
    keys = [keys_of(bytes([secret]) * 32, "of another one") for secret in secrets]
    return claim_in([(HEADER, value) for value in values], keys, now)


def test_a_claim_is_signed_with_any_of_the_secrets() -> None:
    value = claim("203.0.113.7", KEYS, NOW)
    for secrets in (b"s", b"ts"):
        read = found(value, secrets=secrets)
        assert read is not None
        assert (read.client, read.is_signed) == ("203.0.113.7", True)
    for read in (found(value, secrets=b"t"), found(value, secrets=b""), found(b"203.0.113.7")):
        assert read is not None
        assert (read.client, read.is_signed) == ("203.0.113.7", False)


def test_a_claim_is_for_one_client_and_a_short_time() -> None:
    value = claim("203.0.113.7", KEYS, NOW)
    other = value.replace(b"203.0.113.7", b"203.0.113.8")
    later = value.replace(b"%d" % NOW, b"%d" % (NOW + 1))
    for changed in (other, later):
        read = found(changed)
        assert read is not None
        assert not read.is_signed
    for now, is_signed in ((NOW + VALID_MS, True), (NOW - VALID_MS - 1, False)):
        read = found(value, now=now)
        assert read is not None
        assert read.is_signed == is_signed


@pytest.mark.parametrize(
    "value",
    [b"", b"a b", b"a\xff", b"a" * 65, b"a;1", b"a;1;", b"a;1;" + b"f" * 63, b"a;-1;" + b"f" * 64],
)
def test_a_malformed_claim_is_none(value: bytes) -> None:
    assert found(value) is None


def test_several_claims_are_none() -> None:
    assert found(b"10.0.0.1", b"10.0.0.2") is None
    assert found() is None


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::/64", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix:", "unix:"),
        ("", ""),
    ],
)
def test_an_ipv6_network_of_one_customer_is_one_client(address: str, client: str) -> None:
    assert client_of(address) == client


def test_the_client_of_a_token_fits_into_a_claim() -> None:
    client = client_of_subject("alice ✓\n" * 100)
    assert client != client_of_subject("bob")
    read = found(claim(client, KEYS, NOW))
    assert read is not None
    assert (read.client, read.is_signed) == (client, True)


def test_logs_have_addresses() -> None:
    assert address_for_logs("203.0.113.7", "10.0.0.1") == "203.0.113.7"
    for name in (client_of_subject("alice"), ""):
        assert address_for_logs(name, "10.0.0.1") == "10.0.0.1"


def test_networks_are_read_and_compared() -> None:
    networks = parse_networks(" 10.1.0.0/16, 2001:db8::1 ,")
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1"):
        assert is_in(address, networks)
    for address in ("10.2.0.1", "2001:db8::2", "", "unknown"):
        assert not is_in(address, networks)
    assert parse_networks("") == ()


@pytest.mark.parametrize("text", ["10.0.0.1/8", "proxy.example.com", "10.0.0.0/33"])
def test_a_wrong_network_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match="QUERYABLE_TRUSTED_PROXIES: '" + text):
        parse_networks(f"127.0.0.1,{text}")
