"""The responses of /admin, and the cache of its document."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from backend.admin.document import admin_page
from backend.admin.page import Recent, admin_blueprint, recent_topology
from tests.unit.backend.admin.fakes import ORDERS, context, held, member

STATIC = Path(__file__).parents[4] / "backend/admin/static"


@pytest.fixture
def client() -> FlaskClient:
    app = Flask("admin-test")
    served = context(member("b1"), active=(0,), holding=(held(0),))
    app.register_blueprint(admin_blueprint(recent_topology(served)))
    return app.test_client()


def test_the_policy_allows_the_style_and_the_script_of_the_page_alone(client: FlaskClient) -> None:
    with client.get("/admin") as answer:
        assert answer.status_code == 200
        assert answer.content_type == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-cache"
        policy = answer.headers["Content-Security-Policy"]
        text = answer.text
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    assert policy.split("; ") == [
        "default-src 'none'", f"script-src {sha256(script)}", f"style-src {sha256(style)}",
        "img-src data:", "connect-src 'self'", "form-action 'none'", "base-uri 'none'",
        "frame-ancestors 'none'",
    ]  # fmt: skip
    assert text.count("<script") == text.count("<style") == 1
    assert not re.search(r"\son\w+=|\sstyle=|{{|@import|url\(", text)
    # no other request than those of the script, whose paths are relative: a proxy may serve the
    # page below a prefix
    named = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert {name for name in named if not name.startswith("data:")} == {"admin/topology.json"}
    assert not re.search(r"(?:fetch|request)\([\"'`]/", script)


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_has_no_data(client: FlaskClient) -> None:
    """It is sent to clients without a token, too."""
    with client.get("/admin") as answer:
        assert ORDERS.name not in answer.text
        assert ORDERS.topic not in answer.text
        assert answer.data == admin_page().text


def test_all_modules_are_in_the_script(client: FlaskClient) -> None:
    with client.get("/admin") as answer:
        (script,) = re.findall(r"<script[^>]*>(.*?)</script>", answer.text, re.DOTALL)
    for path in STATIC.glob("*.js"):
        assert f"const {path.stem}_js = " in script
        last = path.read_text().strip().splitlines()[-1]
        assert last in script
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


def test_scripts_do_not_create_elements_from_markup() -> None:
    scripts = list(STATIC.glob("*.js"))
    assert scripts
    for path in scripts:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(",
                             path.read_text()), path  # fmt: skip


def test_the_document(client: FlaskClient) -> None:
    with client.get("/admin/topology.json") as answer:
        assert answer.status_code == 200
        assert answer.content_type == "application/json"
        assert answer.headers["Cache-Control"] == "no-store"
        document: dict[str, Any] = answer.get_json()
    assert [instance["id"] for instance in document["instances"]] == ["b1"]
    assert document["views"][0]["placement"][0]["active"] == "b1"


def test_a_trailing_slash_redirects_to_the_page(client: FlaskClient) -> None:
    with client.get("/admin/") as answer:
        assert (answer.status_code, answer.headers["Location"]) == (302, "../admin")


def test_a_fresh_result_is_reused() -> None:
    made: list[int] = []
    recent = Recent(lambda: made.append(1) or len(made), fresh_for=60)

    assert [recent.get() for _ in range(5)] == [1] * 5


def test_an_old_result_is_replaced() -> None:
    made: list[int] = []
    recent = Recent(lambda: made.append(1) or len(made), fresh_for=0)

    assert [recent.get() for _ in range(3)] == [1, 2, 3]


def test_a_failure_is_not_cached() -> None:
    answers = iter([ValueError("no"), 2])

    def make() -> int:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    recent = Recent(make, fresh_for=60)

    with pytest.raises(ValueError, match="no"):
        recent.get()
    assert recent.get() == 2


def test_other_threads_get_the_previous_result_meanwhile() -> None:
    making, may_end = threading.Event(), threading.Event()
    made: list[int] = []

    def make() -> int:
        if made:
            making.set()
            may_end.wait(10)
        made.append(1)
        return len(made)

    recent = Recent(make, fresh_for=0, too_old=60)
    assert recent.get() == 1
    slow = threading.Thread(target=recent.get)
    slow.start()
    assert making.wait(10)
    began = time.monotonic()
    assert recent.get() == 1
    assert time.monotonic() - began < 5
    may_end.set()
    slow.join()
    assert len(made) == 2


def test_the_first_callers_wait_for_one_result() -> None:
    may_end = threading.Event()
    made: list[int] = []

    def make() -> int:
        may_end.wait(10)
        made.append(1)
        return len(made)

    recent = Recent(make, fresh_for=60)
    got: list[int] = []
    threads = [threading.Thread(target=lambda: got.append(recent.get())) for _ in range(4)]
    for thread in threads:
        thread.start()
    may_end.set()
    for thread in threads:
        thread.join()
    assert (got, len(made)) == ([1] * 4, 1)
