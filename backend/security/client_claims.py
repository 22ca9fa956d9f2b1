"""The client for which a proxy or another instance sends a request, so that each client has its own
share of this instance. It never decides what a request may do.

    Queryable-Client: <client>
    Queryable-Client: <client>;<time>;<HMAC-SHA256>

`client` is an address, or `subject-` and a hash of the subject of a token. `time` is Unix time in
ms. The HMAC, in lower case hex, is of the lines "client", client and time, with a key that is
derived from the cluster secret. A signed claim can be used again for a minute: an attacker who
reads it on its way could use the share of this client, but nothing else.
`proxy/security/signing.lua` signs the claims of nginx.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from backend.security.cluster_secret import Keys
from backend.wire.answer import Header
from model.problems import ConfigurationError

HEADER = b"queryable-client"
SETTING = "QUERYABLE_TRUSTED_PROXIES"
VALID_MS = 60_000
"""How far the time of a claim may be from this machine's clock."""

LOOPBACK = ("127.0.0.0/8", "::1")

CLIENT: ContextVar[str] = ContextVar("client", default="")
"""The client of the current request, for the requests to other instances that it causes; "" if
there is none. The router sets it."""

_CLAIM = re.compile(rb"([0-9A-Za-z.:/_-]{1,64})(?:;([0-9]{1,15});([0-9a-f]{64}))?")
_SUBJECT = "subject-"
_IPV6_PREFIX = 64  # bits: a customer has at least one such network (RFC 6177)

Network = IPv4Network | IPv6Network


class ClientClaim:
    """The value of the header. `client`: see above. `is_signed`: whether the cluster
    secret has signed it, at about the time `now` of `claim_in`."""

    __slots__ = ("client", "is_signed")

    def __init__(self, client: str, is_signed: bool) -> None:
        self.client = client
        self.is_signed = is_signed


def client_of(address: str) -> str:
    """The name of the client with this address: an IPv6 network of 64 bits is one client."""
    return address if ":" not in address else _ipv6_network(address)


@lru_cache(maxsize=4096)
def _ipv6_network(address: str) -> str:
    try:
        ipv6 = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if ipv6.ipv4_mapped is not None:
        return str(ipv6.ipv4_mapped)
    return str(IPv6Network((ipv6, _IPV6_PREFIX), strict=False))


def client_of_subject(subject: str) -> str:
    """The name of the client with this verified subject of a token."""
    return _SUBJECT + hashlib.sha256(subject.encode()).hexdigest()[:32]


def address_for_logs(client: str, socket: str) -> str:
    """The address of a client for logs. `client`: its address; or the name that another instance
    has given it because of its token, which is not an address: then the address of the socket."""
    return socket if not client or client.startswith(_SUBJECT) else client


def claim(client: str, keys: Keys | None = None, at: int = 0) -> bytes:
    """The value of the header. `keys`: None without a cluster secret; `at`: ms."""
    if keys is None:
        return client.encode()
    return b"%b;%d;%b" % (client.encode(), at, _mac(keys.client, client.encode(), at))


def claimed(sign: Callable[[str], bytes] = claim) -> list[Header]:
    """The header for a request to another instance; empty if this one asks for itself. `sign`: with
    the cluster secret, if there is one."""
    client = CLIENT.get()
    return [(HEADER, sign(client))] if client else []


def _mac(key: bytes, client: bytes, at: int) -> bytes:
    return hmac.digest(key, b"client\n%b\n%d" % (client, at), "sha256").hex().encode()


@lru_cache(maxsize=4096)
def _is_mac(key: bytes, client: bytes, at: int, mac: bytes) -> bool:
    """Whether the HMAC is correct. Cached, because a proxy sends the same claim with each request
    for some seconds."""
    return hmac.compare_digest(_mac(key, client, at), mac)


def claim_in(headers: Iterable[Header], keys: Iterable[Keys], now: int) -> ClientClaim | None:
    """The claim of a request; None if it has none, several, or a malformed one. `now`: ms."""
    values = [value for name, value in headers if name == HEADER]
    match = _CLAIM.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        return None
    client, time, mac = match.groups()
    is_signed = False
    if mac is not None:
        claimed_at = int(time)
        is_signed = abs(claimed_at - now) <= VALID_MS and any(
            _is_mac(secret_keys.client, client, claimed_at, mac) for secret_keys in keys
        )
    return ClientClaim(client.decode(), is_signed)


def parse_networks(text: str) -> tuple[Network, ...]:
    """The networks of QUERYABLE_TRUSTED_PROXIES: "10.0.0.7,10.1.0.0/16".
    Raises ConfigurationError."""
    networks: list[Network] = []
    for part in filter(None, (item.strip() for item in text.split(","))):
        try:
            networks.append(ip_network(part))
        except ValueError as e:
            raise ConfigurationError(
                f"{SETTING}: {part!r} is not an address or a network such as 10.1.0.0/16: {e}"
            ) from None
    return tuple(networks)


@lru_cache(maxsize=4096)
def is_in(address: str, networks: tuple[Network, ...]) -> bool:
    """Whether the address of a socket is in one of the networks."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    plain = getattr(ip, "ipv4_mapped", None) or ip
    return any(plain in network for network in networks)
