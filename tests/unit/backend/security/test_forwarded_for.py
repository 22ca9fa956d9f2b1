"""The client behind proxies. `tests/system/proxy/test_trusted_proxies.py` asks nginx the same."""

from __future__ import annotations

import pytest

from backend.security.client_claims import is_in, parse_networks
from backend.security.forwarded_for import HEADER, forwarded_client
from tests.support.security.forwarded_cases import CASES, TRUSTED

NETWORKS = parse_networks(TRUSTED)


@pytest.mark.parametrize(("socket", "values", "client"), CASES)
def test_the_client_is_the_last_address_that_is_not_a_proxy(
    socket: str, values: list[str], client: str
) -> None:
    headers = [(HEADER, value.encode()) for value in values]
    found = forwarded_client(socket, headers, NETWORKS)
    assert (found or socket) == client
    assert (found is None) == (not values)


def test_a_client_cannot_make_the_header_expensive() -> None:
    """Entries to the left of the client's own address are not looked at."""
    before = is_in.cache_info().misses
    lies = ", ".join(f"127.0.1.{n}" for n in range(256)) + ", 203.0.113.200, 127.0.1.2"
    assert forwarded_client("127.0.1.1", [(HEADER, lies.encode())], NETWORKS) == "203.0.113.200"
    assert is_in.cache_info().misses - before <= 3
