"""Which reads may be coalesced: those whose answer cannot depend on their headers."""

from __future__ import annotations

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.conftest import KEY, Roles
from tests.system.proxy.crowd import LINE, Crowd, Gate, wait_waiting


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        (f"GET {KEY}?stale=allow HTTP/1.1", ""),
        (f"GET {KEY}? HTTP/1.1", ""),
        (f"GET {KEY}/windows HTTP/1.1", ""),
        (f"HEAD {KEY} HTTP/1.1", ""),
        (f"GET {KEY} HTTP/1.0", ""),
        (LINE, "Authorization: Basic x\r\n"),
        (LINE, "Authorization: Bearer x y\r\n"),
        (LINE, "Accept: application/octet-stream\r\n"),
        (LINE, "Accept: */*\r\nAccept: text/plain\r\n"),
        (LINE, 'If-None-Match: "x"\r\n'),
        (LINE, 'If-Match: "x"\r\n'),
        (LINE, "If-Modified-Since: Sat, 21 Nov 2026 13:31:55 GMT\r\n"),
        (LINE, "Range: bytes=0-1\r\n"),
        (LINE, "Content-Length: 0\r\n"),
        (LINE, "Transfer-Encoding: chunked\r\n\r\n0\r\n"),
        # backends decide about requests of pages of other sites
        (LINE, "Origin: https://app.example.com\r\n"),
        (LINE, "Sec-Fetch-Site: cross-site\r\n"),
        (LINE, "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n"),
        # a backend might refuse these
        (LINE, "X-A: \x01\r\n"),
        (LINE, "X-A: é\r\n"),
        (LINE, "X-A: 1\r\nX-A: 2\r\n"),
        (LINE, "X-Forwarded-Ssl: on\r\n"),
        (LINE, f"X-A: {'x' * 8_100}\r\n"),
        (LINE, "".join(f"X-{number}: 1\r\n" for number in range(64))),
    ],
)
def test_other_requests_are_sent_by_themselves(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate, line: str, headers: str
) -> None:
    active = roles[0]
    crowd.send(LINE)
    wait_until(lambda: len(active.requests) == 1, 10, "the first read")
    crowd.send(line, headers=headers)
    wait_until(lambda: len(active.requests) == 2, 10, "the other request, meanwhile")
    gate.open()
    assert crowd.answers(0)[0].status == 200
    assert active.batches == [1]


def test_reads_with_ordinary_headers_are_coalesced(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    crowd.send(LINE)
    wait_until(lambda: len(roles[0].requests) == 1, 10, "the first read")
    crowd.send(LINE, headers="Accept: */*\r\nUser-Agent: x\r\nConnection: close\r\n")
    crowd.send(LINE, headers="Accept: application/json\r\n")
    wait_waiting(nginx, roles[0], 2)
    gate.open()
    answers = crowd.answers()
    assert [answer.status for answer in answers] == [200] * 3
    assert [answer.headers["Connection"] for answer in answers] == [
        "keep-alive",
        "close",
        "keep-alive",
    ]
