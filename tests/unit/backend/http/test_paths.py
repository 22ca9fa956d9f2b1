"""Parsing of raw paths: they are split first, and each segment is percent-decoded once."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.http.paths import KeyPath, Paths
from backend.http.router import Router
from model.problems import BadRequest
from model.topology import Epoch, Topology
from model.view_versions import ViewVersions
from tests.support.in_process.examples import view
from tests.support.in_process.instance import context

VIEWS = {
    v.name: v
    for v in (
        view("orders", path="/orders"),
        view("deep", path="/shop/orders"),
        view("log", path="/shop/~log"),
        view("bare", path=None),
    )
}
PATHS = Paths(ViewVersions(tuple(VIEWS.values())))


@pytest.mark.parametrize(
    ("raw_path", "name", "text", "rest"),
    [
        (b"/orders/a", "orders", b"a", b""),
        (b"/views/orders/keys/a", "orders", b"a", b""),
        (b"/views/bare/keys/a", "bare", b"a", b""),
        (b"/shop/orders/a", "deep", b"a", b""),
        (b"/shop/~log/a", "log", b"a", b""),
        (b"/orders/a%2Fb", "orders", b"a/b", b""),
        (b"/orders/a%2fb", "orders", b"a/b", b""),
        (b"/views/orders/keys/a%2Fb", "orders", b"a/b", b""),
        (b"/orders/100%25", "orders", b"100%", b""),
        (b"/orders/%2561", "orders", b"%61", b""),
        (b"/orders/a%252Fb", "orders", b"a%2Fb", b""),
        (b"/orders/%FF%01", "orders", b"\xff\1", b""),
        (b"/orders/a+b%20c", "orders", b"a+b c", b""),
        (b"/orders/%C3%A9", "orders", "é".encode(), b""),
        (b"/orders/%3F%23", "orders", b"?#", b""),
        (b"/orders/processors", "orders", b"processors", b""),
        (b"/orders/views", "orders", b"views", b""),
        (b"/orders/..", "orders", b"..", b""),
        (b"/orders/", "orders", b"", b""),
        (b"/views/orders/keys/", "orders", b"", b""),
        (b"/orders/a/windows", "orders", b"a", b"windows"),
        (b"/orders/a/windows/b%2F", "orders", b"a", b"windows/b%2F"),
        (b"/views/orders/keys/a/windows", "orders", b"a", b"windows"),
        (b"/orders//a", "orders", b"", b"a"),
        # all segments are decoded, not only the key
        (b"/views/%6Frders/keys/a", "orders", b"a", b""),
        (b"/%76iews/orders/%6beys/a", "orders", b"a", b""),
        (b"/%6Frders/a", "orders", b"a", b""),
        (b"/shop/%7Elog/a", "log", b"a", b""),
    ],
)
def test_paths_with_a_key(raw_path: bytes, name: str, text: bytes, rest: bytes) -> None:
    assert PATHS.key_path(raw_path) == KeyPath(VIEWS[name], text, rest)


@pytest.mark.parametrize(
    "raw_path",
    [
        b"",
        b"/",
        b"/orders",
        b"/orderss/a",
        b"//orders/a",
        b"orders/a",
        b"/Orders/a",
        b"/shop/a",
        b"/shop/orders",
        b"/bare/a",
        b"/views",
        b"/views/orders",
        b"/views/orders/keys",
        b"/views/orders/count",
        b"/views/nothing/keys/a",
        b"/processors",
        # an encoded slash does not separate segments
        b"/shop%2Forders/a",
        b"/views%2Forders%2Fkeys/a",
        b"/orders%2Fa",
        # segments are not decoded twice
        b"/views/%256Frders/keys/a",
    ],
)
def test_paths_without_a_key(raw_path: bytes) -> None:
    assert PATHS.key_path(raw_path) is None


@pytest.mark.parametrize(
    "key", [b"%", b"100%", b"%zz", b"%4", b"a%2Fb%4g", b"%%41", b"%\xff\xff", b"%00", b"a%2F%00b"]
)
def test_what_nginx_does_not_take_is_no_path(key: bytes) -> None:
    with pytest.raises(BadRequest) as error:
        PATHS.key_path(b"/orders/" + key)
    assert error.value.code == "bad-request"


@given(st.binary().map(lambda key: key.replace(b"\0", b"")), st.sampled_from(sorted(VIEWS)))
def test_any_key_can_be_requested(key: bytes, name: str) -> None:
    encoded = quote(key, safe="").encode()
    asked = VIEWS[name]
    prefixes = [f"/views/{name}/keys/"] + ([f"{asked.path}/"] if asked.path else [])
    for prefix in prefixes:
        assert PATHS.key_path(prefix.encode() + encoded) == KeyPath(asked, key, b"")


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (b"/views/orders/keys", "keys"),
        (b"/views/orders/windows", "windows"),
        (b"/views/orders/batch", "batch"),
        (b"/views/%6frders/%6Beys", "keys"),
        (b"/views/orders/keys/", None),
        (b"/views/orders/keys/a", None),
        (b"/views/orders", None),
        (b"/views/orders%2Fkeys", None),
        (b"/views/none/keys", None),
        (b"/views/orders/nothing", None),
        (b"//views/orders/keys", None),
    ],
)
def test_queries_of_a_whole_view(path: bytes, resource: str | None) -> None:
    served = context(VIEWS.values())
    served.group.apply_topology(Topology(Epoch(5, 1)))
    match = Router(served, None).match(path)  # type: ignore[arg-type]
    if resource is None:
        assert match.route.is_page or match.route.pattern.startswith("{path}/{key}")
    else:
        assert match is not None
        assert (match.view, match.route.pattern) == (VIEWS["orders"], f"/views/{{view}}/{resource}")


@pytest.mark.parametrize(
    ("raw_path", "name", "text", "rest"),
    [
        (b"/shop/orders", "outer", b"orders", b""),
        (b"/shop/orders/x", "inner", b"x", b""),
        (b"/shop/orders/x/changes", "inner", b"x", b"changes"),
        (b"/shop/x/changes", "outer", b"x", b"changes"),
        (b"/shop/%6Frders/x", "inner", b"x", b""),
        (b"/shop/orders/", "inner", b"", b""),
        (b"/shop//orders", "outer", b"", b"orders"),
    ],
)
def test_the_longest_path_of_a_view_takes_precedence(
    raw_path: bytes, name: str, text: bytes, rest: bytes
) -> None:
    nested = {"outer": view("outer", path="/shop"), "inner": view("inner", path="/shop/orders")}
    assert Paths(ViewVersions(tuple(nested.values()))).key_path(raw_path) == KeyPath(
        nested[name], text, rest
    )
