"""Requests about the deployment: its documents, the admin page's data, and commands.

No command of these is carried out: each names something that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.pipelining.example import (
    NEW_PRICES,
    ORDERS,
    PARTITIONS,
    PRICES,
    VIEWS,
    WINDOWS,
    base_of,
    home,
    value,
)
from tests.fuzz.pipelining.kinds.values import read
from tests.fuzz.pipelining.requests import (
    ANY_SCOPE,
    Answer,
    Check,
    Draw,
    Kind,
    Request,
    is_problem,
    json_body,
)

_BASES = tuple(dict.fromkeys(map(base_of, VIEWS)))


def _has(**expected: Any) -> Check:
    """A document with these members."""
    return lambda answer: answer.status == 200 and expected.items() <= dict(answer.document).items()


def _has_members(*names: str) -> Check:
    return lambda answer: answer.status == 200 and set(names) <= dict(answer.document).keys()


def _is_text(beginning: bytes, content_type: str) -> Check:
    return lambda answer: (
        (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, content_type)
        and answer.body.startswith(beginning)
    )


@dataclass
class Documents:
    """`instances`: the ids that may answer. `is_proxy`: some documents are nginx's own there."""

    instances: frozenset[str]
    is_proxy: bool
    _etags: list[str] = field(default_factory=list)

    def kinds(self) -> list[Kind]:
        return [
            Kind(3, _view), Kind(1, _views), Kind(2, self._processors), Kind(2, self._instance),
            Kind(2, _health), Kind(1, _openapi), Kind(1, self._metrics), Kind(4, _identity),
            Kind(2, _versions), Kind(1, _admin), Kind(1, _admin_data), Kind(2, _replicas),
            Kind(2, _unknown, True), Kind(4, _command, True),
        ]  # fmt: skip

    def _processors(self, draw: Draw) -> Request:
        known = self._etags[-1] if self._etags else None

        def check(answer: Answer) -> bool:
            etag = answer.headers["etag"]
            is_known = (answer.status, answer.body, etag) == (304, b"", known)
            is_right = is_known or (answer.status == 200 and "processors" in answer.document)
            if is_right:
                self._etags[:] = [etag]
            return is_right

        headers = {} if known is None else {"If-None-Match": known}
        return Request("GET", "/processors", check, ANY_SCOPE, headers)

    def _instance(self, draw: Draw) -> Request:
        def check(answer: Answer) -> bool:
            return answer.status == 200 and answer.document["id"] in self.instances

        return Request("GET", "/instance", check, ANY_SCOPE)

    def _metrics(self, draw: Draw) -> Request:
        is_metrics = _is_text(b"# HELP", "text/plain")
        found = [Request("GET", "/metrics/targets", _is_list, "metrics")]
        if self.is_proxy:
            refused = is_problem(421, "metrics-of-instances")
            found += [
                Request("GET", "/metrics", refused, "metrics"),
                Request("GET", "/proxy/metrics", is_metrics, "metrics"),
                Request("GET", "/proxy/health", _has(status="ok"), ANY_SCOPE),
                Request("GET", "/health/proxy", _has(status="ok")),
            ]
        else:
            found.append(Request("GET", "/metrics", is_metrics, "metrics"))
        return draw.random.choice(found)


def _health(draw: Draw) -> Request:
    name, member = draw.random.choice((("live", "alive"), ("ready", "ready")))
    return Request("GET", f"/health/{name}", _has(**{member: True}))


def _is_list(answer: Answer) -> bool:
    return answer.status == 200 and isinstance(answer.document, list)


def _view(draw: Draw) -> Request:
    name = draw.random.choice(_BASES)
    check = _has(name=name, partitions=PARTITIONS)
    return Request("GET", f"/views/{name}", check, ANY_SCOPE)


def _views(draw: Draw) -> Request:
    def check(answer: Answer) -> bool:
        return answer.status == 200 and {v["name"] for v in answer.document["views"]} == {*_BASES}

    return Request("GET", "/views", check, ANY_SCOPE)


def _openapi(draw: Draw) -> Request:
    return Request("GET", "/openapi.json", _has_members("openapi", "paths"), ANY_SCOPE)


def _identity(draw: Draw) -> Request:
    """The answer names the sender of the token."""
    token = draw.token
    expected = {
        "auth": "off" if token.scopes is None else "jwt",
        "subject": token.subject,
        "scopes": sorted(token.scopes or ()),
        "admin": token.scopes is None or "admin" in token.scopes,
    }
    return Request("GET", "/admin/identity", _has(**expected), ANY_SCOPE)


def _versions(draw: Draw) -> Request:
    def check(answer: Answer) -> bool:
        names = [each["name"] for each in answer.document["versions"]]
        return answer.status == 200 and names == [f"{PRICES}@1", NEW_PRICES]

    return Request("GET", f"/views/{PRICES}/versions", check, ANY_SCOPE)


def _admin(draw: Draw) -> Request:
    if draw.random.random() < 0.5:
        return Request("GET", "/admin/", _is_redirect, ANY_SCOPE)
    return Request("GET", "/admin", _is_text(b"<!doctype html>", "text/html"), ANY_SCOPE)


def _is_redirect(answer: Answer) -> bool:
    return (answer.status, answer.headers["location"]) == (302, "../admin")


def _admin_data(draw: Draw) -> Request:
    path, needs, *members = draw.random.choice((
        ("/admin/topology.json", ANY_SCOPE, "views"),
        ("/admin/deployment", ANY_SCOPE, "application_id", "views", "instances"),
        ("/admin/history", ANY_SCOPE, "instances"),
        ("/admin/groups", "admin", "groups"),
        (f"/admin/views/{ORDERS}/dead-letters", read(ORDERS), "items", "reasons"),
    ))  # fmt: skip
    return Request("GET", path, _has_members(*members), needs)


def _replicas(draw: Draw) -> Request:
    key = b"k%d" % draw.number
    document = {"key": key.decode(), "value": value(ORDERS, draw.number)}

    def check(answer: Answer) -> bool:
        found = answer.document
        of_active = [each["document"] for each in found["replicas"] if each["role"] == "active"]
        return (answer.status, found["partition"], of_active) == (200, home(key), [document])

    path = f"/admin/views/{ORDERS}/replicas?key={key.decode()}"
    return Request("GET", path, check, read(ORDERS))


def _unknown(draw: Draw) -> Request:
    path = f"/no/such/path/{draw.number}"
    return Request("GET", path, is_problem(404, "no-such-resource", repr(path)), ANY_SCOPE)


def _command(draw: Draw) -> Request:
    """Each is refused for its own number."""
    name = f"no{draw.number}"
    number = draw.number + 1000
    path, document, check = draw.random.choice((
        (f"/admin/instances/{name}/drain", {}, is_problem(404, "instance-not-found", name)),
        (f"/admin/instances/{name}/undrain", {}, is_problem(404, "instance-not-found", name)),
        (
            f"/admin/instances/{name}/rebuild", {"view": ORDERS, "partition": 0},
            is_problem(404, "instance-not-found", name),
        ),
        (f"/admin/groups/{name}/delete", {}, is_problem(404, "group-not-found", f"{name}.")),
        (f"/admin/deployments/{name}/switch", {}, is_problem(409, "other-deployment", name)),
        (f"/admin/deployments/{name}/rollback", {}, is_problem(409, "other-deployment", name)),
        (
            f"/views/{PRICES}/switch", {"version": number},
            is_problem(404, "version-not-found", str(number)),
        ),
        (
            f"/views/{PRICES}/drop", {"version": number},
            is_problem(404, "version-not-found", str(number)),
        ),
        (f"/views/{PRICES}/rollback", {}, is_problem(409, "no-previous-version", PRICES)),
        (
            f"/views/{WINDOWS}/pipeline", {"action": "pause"},
            is_problem(404, "no-pipeline", f"View {WINDOWS} "),
        ),
    ))  # fmt: skip
    return Request("POST", path, check, "admin", **json_body(document))
