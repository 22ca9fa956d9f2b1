"""The address of a client behind proxies, from `X-Forwarded-For`.

Each proxy appends the address of its own client. So the entries are read from the right, and an
entry counts only if the socket and all entries to the right of it are of trusted proxies: a client
can write what it wants only to the left of its own address. nginx does the same with
`real_ip_recursive on`, and a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from backend.security.client_claims import Network, is_in
from backend.wire.answer import Header

HEADER = b"x-forwarded-for"


def forwarded_client(
    socket: str, headers: Iterable[Header], trusted: tuple[Network, ...]
) -> str | None:
    """The address of the client whose request arrives from a trusted proxy at `socket`; None if the
    request has no such header. If an entry is not an address, the proxy that has written it is the
    client. The server bounds the bytes of the headers, and so the number of entries."""
    values = [value for name, value in headers if name == HEADER]
    if not values:
        return None
    entries = b",".join(values).decode("latin-1").replace(",", " ").split(" ")
    client = socket
    while entries and is_in(client, trusted):
        entry = entries.pop()
        if not entry:
            continue
        address = _address_in(entry)
        if address is None:
            break
        client = address
    return client


def _address_in(entry: str) -> str | None:
    """The address of `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1` or `[2001:db8::1]:4711`."""
    if entry[0] == "[":
        entry = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        entry = entry.partition(":")[0]
    try:
        address = ip_address(entry)
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)
