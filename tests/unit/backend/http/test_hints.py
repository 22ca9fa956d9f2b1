"""What unknown paths and `/` answer: what was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from backend.http.hints import hint
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import context
from tests.support.in_process.pages import flask_pages

WITHOUT_PATH = view("hidden", path=None)
LISTED = "GET /views lists the views and their paths."
KEYS = "/orders/KEY is the path of a key. GET /views/orders/keys reads the keys of view orders."


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/orders", KEYS),
        ("/orders/", KEYS),
        ("/order/4001", f"Did you mean /orders/4001? {LISTED}"),
        ("/Orders/a/b", LISTED),
        ("/order/", LISTED),
        ("/", f"The admin page is /admin. {LISTED}"),
        ("/hidden", LISTED),
        ("/nothing/like/it", LISTED),
    ],
)
def test_the_path_that_was_probably_meant_is_named(path: str, meant: str) -> None:
    assert ORDERS.path == "/orders"
    assert hint(path, [ORDERS, WITHOUT_PATH]) == meant


@pytest.mark.parametrize("path", ["/orders", "/orders?total=5", "/order/4001"])
def test_an_unknown_path_is_404_with_a_hint(path: str) -> None:
    answer: Any = flask_pages(context([ORDERS])).test_client().get(path)
    assert (answer.status_code, answer.json["code"]) == (404, "no-such-resource")
    assert "/orders/" in answer.json["detail"]
