"""Arguments and values that the client rejects."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import pytest

from model.formats.base64url import to_base64url
from queryable import (
    BadUse,
)
from queryable.client.protocol.calls import append, point, scan, time_ranges
from queryable.client.protocol.formats import FORMATS
from queryable.client.protocol.views import View
from tests.support.clients.scripted_transport import (
    ORDERS,
    Driver,
    ok,
    orders,
)


@pytest.mark.parametrize(
    ("of", "arguments", "options"),
    [
        (point.get, ("orders", 7), {}),
        (point.get, ("orders", "a"), {"max_staleness": "soon"}),
        (scan.scan, ("orders",), {"page": 0}),
        (scan.scan, ("orders",), {"limit": -1}),
        (append.append, ("orders", "a", float("nan")), {}),
        (time_ranges.windows, ("orders", "a"), {"key_from": "a"}),
        (time_ranges.windows, ("orders", "a"), {"order_by": "delay"}),
        (time_ranges.sessions, ("orders", "a"), {"order_by": "delay"}),
    ],
)
def test_invalid_arguments_are_not_sent(
    of: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    driver = orders()
    with pytest.raises(BadUse):
        driver.call(of, *arguments, **options)
    assert driver.requests == []


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("float64", 10**400),
        ("string", "\ud800"),
        ("json", {1, 2}),
        ("int32", True),
    ],
)
def test_values_outside_the_format_are_bad_use(form: str, value: Any) -> None:
    view = View.from_json({**ORDERS, "key": form})
    for of in (FORMATS[form].path_segment, FORMATS[form].json_bytes, FORMATS[form].record_bytes):
        with pytest.raises(BadUse):
            of(value)
    with pytest.raises(BadUse):
        Driver(ok(view.description)).call(point.get, "orders", value)


def test_a_json_key_may_have_half_of_a_surrogate_pair() -> None:
    """RFC 8259, section 8.2; JavaScript's `JSON.stringify` writes it so."""
    assert FORMATS["json"].json_bytes("\ud800") == b'"\\ud800"'
    assert FORMATS["json"].record_bytes("\ud800") == b'"\\ud800"'


def test_path_segments_that_nginx_rejects_are_base64url() -> None:
    assert FORMATS["string"].path_segment("a\0b") == ("YQBi", True)
    assert FORMATS["bytes"].path_segment(b"\0") == ("AA", True)
    assert FORMATS["json"].path_segment("a\0b") == ("%22a%5Cu0000b%22", False)
    # nginx resolves such parts, and may take the key for one of its own paths
    for key in ("../../../internal/x", "a/..", "a/../b", "./a", "a/.", "a/./b", "..", "."):
        encoded = to_base64url(key.encode()).decode()
        assert FORMATS["string"].path_segment(key) == (encoded, True)
    for key in ("a/b", "/", "a/", "...", "a..", ".a/.b", "a/..b"):
        assert FORMATS["string"].path_segment(key) == (quote(key, safe=""), False)
    assert FORMATS["json"].path_segment("a/../b") == (to_base64url(b'"a/../b"').decode(), True)
    # its record bytes require the schema: nginx answers 400 if it could take it for its own path
    segment, is_base64 = FORMATS["avro"].path_segment({"path": "a/../b"})
    assert (unquote(segment), is_base64) == ('{"path":"a/../b"}', False)
