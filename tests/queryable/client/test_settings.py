"""The settings of a client: which URLs it accepts."""

from __future__ import annotations

import pytest

from queryable import BadUse, Client

WRONG = [
    "http://127.0.0.1:abc",
    "http://127.0.0.1:-1",
    "http://proxy:65536",
    "http://a proxy:8080",
    "http://[::1",
    "http://a..b",
    "http://.proxy",
    f"http://{'a' * 64}.example.org",
    "localhost:8080",
    "http://",
    "http://proxy?x=1",
]


@pytest.mark.parametrize("url", WRONG)
def test_a_url_that_cannot_be_asked_is_refused_at_once(url: str) -> None:
    with pytest.raises(BadUse, match="is not a valid URL"):
        Client(["http://proxy", url])


@pytest.mark.parametrize(
    "url",
    [
        "http://proxy", "HTTPS://Proxy.example.org.:8443/topics/", "http://[::1]:8080",
        "http://bücher.example.org", "http://my_proxy:1",
    ],
)  # fmt: skip
def test_other_urls_are_accepted(url: str) -> None:
    Client(url).close()
