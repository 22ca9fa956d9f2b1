"""The responses of /admin, and the cache of its document."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from backend.http.admin.page import Recent, admin_blueprint, recent_topology
from tests.backend.http.admin.fakes import context, held, member

STATIC = Path(__file__).parents[4] / "backend/http/admin/static"


@pytest.fixture
def client() -> FlaskClient:
    app = Flask("admin-test")
    served = context(member("b1"), active=(0,), holding=(held(0),))
    app.register_blueprint(admin_blueprint(served, recent_topology(served)))
    return app.test_client()


def test_the_page_loads_nothing_from_other_origins_and_runs_nothing_inline(
    client: FlaskClient,
) -> None:
    with client.get("/admin") as answer:
        assert answer.status_code == 200
        assert answer.content_type == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-cache"
        policy = answer.headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= set(policy)
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert not re.search(r"<script>|<style|\son\w+=|\sstyle=", answer.text)
        assert '<option value="orders" data-key="string">orders</option>' in answer.text


def test_every_file_that_the_page_references_exists(client: FlaskClient) -> None:
    with client.get("/admin") as answer:
        named = set(re.findall(r'(?:src|href)="([^"]+)"', answer.text))
    for path in STATIC.glob("*.js"):
        imports = re.findall(r'from "\./([^"]+)"', path.read_text())
        named |= {f"admin/static/{name}" for name in imports}
    # relative, because a proxy may serve the page below a prefix
    assert not [path for path in named if path.startswith(("/", "http"))]
    for path in named:
        with client.get(f"/{path}") as answer:
            assert answer.status_code == 200, path
    assert {path.name for path in STATIC.iterdir()} == {
        path.rpartition("/")[2] for path in named if "/static/" in path
    }


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
