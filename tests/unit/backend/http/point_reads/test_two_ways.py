"""A request target gets the same answer by the fast path and by gunicorn's parser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gunicorn.asgi.parser import CallbackRequest
from gunicorn_h1c import H1CProtocol
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.http.router import Router
from backend.wire.answer import Answer
from backend.wire.plain_requests import plain_get
from model.views import View
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.unit.backend.http.point_reads.instances import holding

LIMIT = 32768  # as gunicorn_conf.py sets it
Told = tuple[int, list[tuple[bytes, bytes]], bytes]

KEYS = [b"", b"a", b"\xc3\xa9", b"a#b", b"a?", b"a;b", b"a//b", b"%", b"a b", b"k" * 5000]


async def no_page(scope: Any, receive: Any, send: Any) -> None:
    """Replaces Flask."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"no such page"})


@contextmanager
def context(folder: Path, of: View) -> Iterator[Router]:
    keys = [(7).to_bytes(8, "big")] if of.key == "int64" else KEYS
    with holding(folder, of, dict.fromkeys(keys, b'{"n":1}'), partitions=2) as instance:
        yield Router(instance.context, no_page)


def ageless(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Told:
    # the lag becomes unknown if the end of the log is not fetched for a while
    aging = (b"staleness", b"lag")
    return status, sorted((n, b"" if n in aging else v) for n, v in headers), body


def parsed(shell: Router, target: bytes) -> Told | int:
    """The answer by gunicorn's parser and ASGI; 400 if the parser refuses it."""
    try:
        parser = H1CProtocol(limit_request_line=LIMIT)
        parser.feed(b"GET %b HTTP/1.1\r\nHost: b\r\n\r\n" % target)
        if not parser.is_complete:
            return 400
        request = CallbackRequest.from_parser(parser)
    except Exception:
        return 400
    scope = {
        "type": "http", "method": "GET", "raw_path": request.raw_path, "path": request.path,
        "query_string": request.query.encode("latin-1"), "headers": request.headers_bytes,
    }  # fmt: skip
    sent: list[Any] = []
    received = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Any:
        return next(received, {"type": "http.disconnect"})  # ends a stream of changes

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(shell(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return ageless(sent[0]["status"], sent[0]["headers"], body)


def fast_path(shell: Router, target: bytes) -> Told | None:
    get = plain_get(b"GET %b HTTP/1.1\r\nHost: b\r\n\r\n" % target)
    answer: Answer | None = None if get is None else shell.fast_path.answer_now(*get)
    return None if answer is None else ageless(answer.status, answer.headers, answer.body)


def assert_the_same(shell: Router, target: bytes) -> None:
    answer = fast_path(shell, target)
    assert answer is None or answer == parsed(shell, target)


@pytest.fixture(scope="module", params=["string", "bytes", "int64"])
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Router]:
    of = ORDERS if request.param == "string" else view(key=request.param, path="/orders")
    with context(tmp_path_factory.mktemp("data"), of) as made:
        yield made


ODD = [
    b"/orders/\xc3\xa9",
    b"/orders/\xff",
    b"/orders/%C3%A9",
    b"/orders/%c3%a9",
    b"/orders/%FF",
    b"/orders/a\x00",
    b"/orders/a\x01",
    b"/orders/a\t",
    b"/orders/a b",
    b"/orders/a%20b",
    b"/orders/a\r",
    b"/orders/\x7f",
    b"/orders/a#b",
    b"/orders/a%23b",
    b"/orders/a?",
    b"/orders/a?stale=never",
    b"/orders/a%3F",
    b"/orders/a;b",
    b"/orders/a%3bb",
    b"/orders/",
    b"/orders//",
    b"//orders/a",
    b"/orders//a",
    b"/orders/a/",
    b"/orders/a//b",
    b"/orders/a%2F%2Fb",
    b"/orders/.",
    b"/orders/..",
    b"/orders/%2e%2e",
    b"/views/orders/keys/a",
    b"/views//orders/keys/a",
    b"/%6Frders/a",
    b"/orders%2Fa",
    b"/orders/%",
    b"/orders/%4",
    b"/orders/%zz",
    b"/orders/%25",
    b"/orders/%2561",
    b"/orders/a%00",
    b"/orders/a%0A",
    b"http://127.0.0.1:8081/orders/a",
    b"orders/a",
    b"*",
    b"",
    b"/orders/" + b"k" * 5000,
    b"/orders/" + b"k" * 9000,
    b"/orders/" + b"%6b" * 5000,
    b"/orders/" + b"k" * 33000,
    b'/orders/"',
    b"/orders/{}|\\^`<>",
    b"/orders/7",
    b"/orders/-7",
    b"/orders/+7",
    b"/orders/07",
]


@pytest.mark.parametrize("target", ODD, ids=lambda target: repr(target)[:40])
def test_odd_targets(shell: Router, target: bytes) -> None:
    assert_the_same(shell, target)


_PIECES = st.sampled_from(
    [b"/", b"//", b"a", b"%", b"%2F", b"%61", b"%FF", b"#", b"?", b";", b"\xc3\xa9", b"\xff", b"\0",
     b" ", b"\t", b"\r", b"orders", b"views", b"keys", b"..", b"+", b"7", b"=", b"&", b"changes"]
)  # fmt: skip
_TARGETS = st.builds(
    bytes.__add__,
    st.sampled_from([b"/orders/", b"/views/orders/keys/", b"", b"/", b"http://x/orders/"]),
    st.lists(_PIECES, max_size=5).map(b"".join) | st.binary(max_size=6),
)


@settings(max_examples=examples(300))
@given(_TARGETS)
@example(b"/orders/a?")
def test_the_same_on_both_ways(shell: Router, target: bytes) -> None:
    assert_the_same(shell, target)


def test_plain_reads_are_answered_on_both_ways(tmp_path: Path) -> None:
    """The comparisons above compare answers, if there are two."""
    with context(tmp_path, ORDERS) as shell:
        for target, status in ((b"/orders/a", 200), (b"/orders/nobody", 404)):
            by_parser = parsed(shell, target)
            assert not isinstance(by_parser, int)
            assert by_parser[0] == status
            assert fast_path(shell, target) == by_parser


def test_the_absolute_form_is_accepted(tmp_path: Path) -> None:
    """RFC 9112, 3.2.2: a server accepts it."""
    with context(tmp_path, ORDERS) as shell:
        for scheme in (b"http", b"HTTP", b"https"):
            answer = parsed(shell, scheme + b"://127.0.0.1:8081/orders/a")
            assert answer == parsed(shell, b"/orders/a")
        assert parsed(shell, b"http://127.0.0.1:8081/views/orders/keys/%C3%A9") == parsed(
            shell, b"/orders/%C3%A9"
        )
        assert parsed(shell, b"http://127.0.0.1:8081") == parsed(shell, b"/")


def test_a_hit_or_a_miss_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(tmp_path, ORDERS, {b"a": b'{"n":1}'}, partitions=2) as instance:
        shell = Router(instance.context, no_page)
        store_partition = instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        looked: list[bytes] = []
        of_store = type(store_partition.store)
        get, get_many = of_store.get, of_store.get_many

        def counting_get(self: Any, key: bytes) -> Any:
            looked.append(key)
            return get(self, key)

        def counting_get_many(self: Any, keys: list[bytes]) -> Any:
            looked.extend(keys)
            return get_many(self, keys)

        monkeypatch.setattr(of_store, "get", counting_get)
        monkeypatch.setattr(of_store, "get_many", counting_get_many)
        targets = [b"/orders/a", *(b"/orders/nobody-%d" % n for n in range(9))]
        answers = [fast_path(shell, target) for target in targets]
        assert [answer and answer[0] for answer in answers] == [200, *[404] * 9]
        assert len(looked) == len(set(looked)) == 10
        counts = instance.context.telemetry.counts["orders"]
        assert (counts.found, counts.missed) == (1, 9)
