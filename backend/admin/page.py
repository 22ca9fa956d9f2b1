"""The routes of the admin page, which shows partitions and progress of all instances."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import orjson
from flask import Blueprint, Response, redirect

from backend.admin.document import PATH, admin_page
from backend.admin.topology import Peers, topology_document
from backend.instance.context import InstanceContext

_FRESH_FOR = 0.5  # s for which the document is cached
_TOO_OLD = 5.0  # s after which requests wait for a new document

_T = TypeVar("_T")


def recent_topology(context: InstanceContext) -> Recent[dict[str, Any]]:
    """The document of `/admin/topology.json`, built at most twice a second."""
    peers = Peers(context.cluster.signer, context.certificates)
    return Recent(lambda: topology_document(context, peers.ask), _FRESH_FOR)


def admin_blueprint(document: Recent[dict[str, Any]]) -> Blueprint:
    """`/admin`, and `/admin/topology.json`, from which the page refreshes itself."""
    admin = Blueprint("admin", __name__)

    @admin.get(PATH)
    def page() -> Response:
        text, headers = admin_page()
        return Response(text, headers=[(name.decode(), value.decode()) for name, value in headers])

    @admin.get("/admin/")
    def page_with_slash() -> Any:
        # relative, because a proxy may serve the page below a prefix
        return redirect("../admin")

    @admin.get("/admin/topology.json")
    def topology() -> Response:
        answer = Response(orjson.dumps(document.get()), content_type="application/json")
        answer.headers["Cache-Control"] = "no-store"
        return answer

    return admin


class Recent(Generic[_T]):
    """Caches the result of `make` for `fresh_for` s. Only one thread at a time calls `make`.

    During this call, other threads get the previous result, unless it is older than `too_old` s. So
    many open pages cost an instance no more than one page, and do not block its threads.
    """

    def __init__(self, make: Callable[[], _T], fresh_for: float, too_old: float = _TOO_OLD) -> None:
        self._make = make
        self._fresh_for = fresh_for
        self._too_old = too_old
        self._lock = threading.Lock()
        self._cached: tuple[float, _T] | None = None

    def get(self) -> _T:
        cached = self._younger_than(self._fresh_for)
        if cached is not None:
            return cached[1]
        usable = self._younger_than(self._too_old)
        if not self._lock.acquire(blocking=usable is None):
            assert usable is not None
            return usable[1]
        try:
            # another thread may have refreshed it while this one waited for the lock
            cached = self._younger_than(self._fresh_for)
            if cached is None:
                result = self._make()
                cached = self._cached = (time.monotonic(), result)
            return cached[1]
        finally:
            self._lock.release()

    def _younger_than(self, seconds: float) -> tuple[float, _T] | None:
        cached = self._cached
        return cached if cached and time.monotonic() - cached[0] < seconds else None
