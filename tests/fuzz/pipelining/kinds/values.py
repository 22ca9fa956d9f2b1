"""Requests for the value of a key: point reads in all their forms, searches and changes."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import quote

from tests.fuzz.pipelining.connections import EVENTS
from tests.fuzz.pipelining.example import (
    CUSTOM,
    GLOBAL,
    HISTORY,
    NEW_PRICES,
    OF_VALUES,
    ORDERS,
    PRICES,
    SESSIONS,
    VERSIONS,
    WINDOWS,
    base_of,
    home,
    record_value,
    start,
    value,
    version,
)
from tests.fuzz.pipelining.requests import (
    ANY_SCOPE,
    Answer,
    Check,
    Draw,
    Kind,
    Request,
    is_document,
    is_problem,
    json_body,
)

OCTETS = "application/octet-stream"


def path_of(view: str, key: str) -> str:
    return f"/views/{quote(view)}/keys/{key}"


def read(view: str) -> str:
    """The scope."""
    return f"read:{base_of(view)}"


def value_body(view: str, number: int) -> bytes:
    """The answer to a point read, byte for byte."""
    return b'{"key":"k%d","value":%b}' % (number, record_value(view, number))


def is_value(view: str, number: int) -> Check:
    """The partition and the version of the view are headers."""
    expected, partition = value_body(view, number), str(home(b"k%d" % number))
    of_version = {PRICES: "1", NEW_PRICES: "2"}.get(view)

    def check(answer: Answer) -> bool:
        return (answer.status, answer.body) == (200, expected) and (
            answer.headers.get("view-version") == of_version
            and (view == GLOBAL or answer.headers["partition"] == partition)
        )

    return check


@dataclass
class Values:
    """`_etags`: of earlier answers, by path."""

    _etags: dict[str, str] = field(default_factory=dict)

    def kinds(self) -> list[Kind]:
        return [
            Kind(60, _point), Kind(10, self._conditional), Kind(6, _encoded), Kind(6, _head),
            Kind(6, _missing), Kind(4, _record_bytes), Kind(3, _redirect), Kind(3, _fresh),
            Kind(2, _partials), Kind(3, _as_of), Kind(2, _custom), Kind(4, _with_body),
            Kind(4, _search), Kind(2, _search_by_bytes), Kind(3, _changes), Kind(1, _deleted),
            Kind(1, _changes_of_windows, True), Kind(2, _unknown_parameter, True),
            Kind(2, _below_a_key, True), Kind(1, _no_such_form, True),
            Kind(2, _unknown_view, True), Kind(4, _wrong_method, True),
        ]  # fmt: skip

    def _conditional(self, draw: Draw) -> Request:
        path = path_of(ORDERS, f"k{draw.number}")
        known = self._etags.get(path)
        is_this = is_value(ORDERS, draw.number)

        def check(answer: Answer) -> bool:
            etag = answer.headers["etag"]
            is_known = (answer.status, answer.body, etag) == (304, b"", known)
            is_right = is_known or is_this(answer)
            if is_right:
                self._etags[path] = etag
            return is_right

        headers = {} if known is None else {"If-None-Match": known}
        return Request("GET", path, check, read(ORDERS), headers)


def _point(draw: Draw) -> Request:
    view = draw.random.choice((ORDERS, ORDERS, *OF_VALUES))
    paths = [path_of(view, f"k{draw.number}"), *([f"/orders/k{draw.number}"] * (view == ORDERS))]
    accept = draw.random.choice((None, "*/*", "application/json"))
    return Request(
        "GET", draw.random.choice(paths), is_value(view, draw.number), read(view),
        {} if accept is None else {"Accept": accept},
    )  # fmt: skip


def _encoded(draw: Draw) -> Request:
    text = base64.urlsafe_b64encode(b"k%d" % draw.number).decode().rstrip("=")
    path = path_of(ORDERS, text) + "?encoding=base64url"
    return Request("GET", path, is_value(ORDERS, draw.number), read(ORDERS))


def _head(draw: Draw) -> Request:
    expected = str(len(value_body(ORDERS, draw.number))), str(home(b"k%d" % draw.number))

    def check(answer: Answer) -> bool:
        of_key = answer.headers["content-length"], answer.headers["partition"]
        return (answer.status, answer.body, of_key) == (200, b"", expected)

    return Request("HEAD", path_of(ORDERS, f"k{draw.number}"), check, read(ORDERS))


def _missing(draw: Draw) -> Request:
    view, key = draw.random.choice(OF_VALUES), f"missing{draw.number}"
    is_this = is_problem(404, "key-not-found", f"View {base_of(view)}")
    partition = str(home(key.encode()))

    def check(answer: Answer) -> bool:
        return is_this(answer) and (view == GLOBAL or answer.headers["partition"] == partition)

    return Request("GET", path_of(view, key), check, read(view))


def _record_bytes(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    expected = 200, OCTETS, record_value(view, draw.number)

    def check(answer: Answer) -> bool:
        return (answer.status, answer.headers["content-type"], answer.body) == expected

    path = path_of(view, f"k{draw.number}")
    return Request("GET", path, check, read(view), {"Accept": OCTETS})


def _redirect(draw: Draw) -> Request:
    """The owner answers itself, and others give its address."""
    path = path_of(ORDERS, f"k{draw.number}") + "?route=redirect"
    is_this = is_value(ORDERS, draw.number)

    def check(answer: Answer) -> bool:
        if answer.status == 307:
            return answer.headers["location"].endswith(path)
        return is_this(answer)

    return Request("GET", path, check, read(ORDERS))


def _fresh(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    bound = draw.random.choice(("stale=allow", "stale=never", "min_offset=0:0", "max_lag=1000"))
    path = f"{path_of(view, f'k{draw.number}')}?{bound}"
    return Request("GET", path, is_value(view, draw.number), read(view))


def _partials(draw: Draw) -> Request:
    key, partition = f"k{draw.number}", home(b"k%d" % draw.number)

    def check(answer: Answer) -> bool:
        found = answer.document
        of_partitions = [(each["partition"], each["value"]) for each in found["partials"]]
        expected = [(partition, value(ORDERS, draw.number))]
        return (answer.status, found["key"], of_partitions) == (200, key, expected)

    return Request("GET", f"{path_of(ORDERS, key)}?partials=all", check, read(ORDERS))


def _as_of(draw: Draw) -> Request:
    at = draw.random.randrange(HISTORY)
    path = f"{path_of(VERSIONS, f'k{draw.number}')}?as_of={start(draw.number, at)}"
    expected = {"key": f"k{draw.number}", **version(draw.number, at)}
    return Request("GET", path, is_document(expected), read(VERSIONS))


def _custom(draw: Draw) -> Request:
    expected = {"key": f"k{draw.number}", "value": True}
    return Request("GET", path_of(CUSTOM, f"k{draw.number}"), is_document(expected), read(CUSTOM))


def _with_body(draw: Draw) -> Request:
    """The body is ignored, and is no request, although it looks like one."""
    other = draw.random.choice((ORDERS, GLOBAL))
    body = b"GET /views/%b/keys/k0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % other.encode()
    return Request(
        "GET", path_of(ORDERS, f"k{draw.number}"), is_value(ORDERS, draw.number), read(ORDERS),
        body=body, is_chunked=draw.random.random() < 0.5, closes=True,
    )  # fmt: skip


def _search(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    body = json_body({"query": f"k{draw.number}"})
    path = f"/views/{view}/search"
    return Request("POST", path, is_value(view, draw.number), read(view), **body)


def _search_by_bytes(draw: Draw) -> Request:
    return Request(
        "POST", f"/views/{ORDERS}/search", is_value(ORDERS, draw.number), read(ORDERS),
        {"Content-Type": OCTETS}, b"k%d" % draw.number,
    )  # fmt: skip


def _event(view: str, key: str, name: str, data: bytes) -> Check:
    """Of a stream of changes, the first one."""
    expected = [b"event: %b" % name.encode(), b"data: %b" % data, b"", b""]
    partition = b"id: %d:" % home(key.encode())

    def check(answer: Answer) -> bool:
        first, *lines = answer.body.split(b"\n")
        return (
            answer.status == 200
            and answer.headers["content-type"].startswith(EVENTS)
            and (view == GLOBAL or first.startswith(partition))
            and lines == expected
        )

    return check


def _changes(draw: Draw) -> Request:
    view, key = draw.random.choice((ORDERS, GLOBAL)), f"k{draw.number}"
    check = _event(view, key, "value", value_body(view, draw.number))
    return Request("GET", path_of(view, key) + "/changes", check, read(view))


def _deleted(draw: Draw) -> Request:
    key = f"missing{draw.number}"
    check = _event(ORDERS, key, "deleted", b'{"key":"%b"}' % key.encode())
    return Request("GET", path_of(ORDERS, key) + "/changes", check, read(ORDERS))


def _changes_of_windows(draw: Draw) -> Request:
    view = draw.random.choice((WINDOWS, SESSIONS))
    path = path_of(view, f"k{draw.number}") + "/changes"
    return Request("GET", path, is_problem(400, "wrong-store", f"View {view} "), read(view))


def _unknown_parameter(draw: Draw) -> Request:
    path = f"{path_of(ORDERS, f'k{draw.number}')}?no{draw.number}=x"
    check = is_problem(400, "unknown-parameter", f"'no{draw.number}'")
    return Request("GET", path, check, read(ORDERS))


def _below_a_key(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    path = f"{path_of(view, f'k{draw.number}')}/no{draw.number}"
    return Request(
        "GET", path, is_problem(404, "no-such-resource", f"'no{draw.number}'"), read(view)
    )


def _no_such_form(draw: Draw) -> Request:
    path = path_of(ORDERS, f"k{draw.number}")
    accept = {"Accept": "application/avro"}
    return Request("GET", path, is_problem(406, "not-acceptable"), read(ORDERS), accept)


def _unknown_view(draw: Draw) -> Request:
    path = f"/views/no{draw.number}/keys/k{draw.number}"
    return Request("GET", path, is_problem(404, "view-not-found", f"'no{draw.number}'"), ANY_SCOPE)


def _wrong_method(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    method = draw.random.choice(("DELETE", "PATCH", "PUT"))
    return Request(
        method, path_of(view, f"k{draw.number}"),
        is_problem(405, "method-not-allowed", method), read(view),
    )  # fmt: skip
