"""Which histogram a request is counted in, and until when its duration is counted."""

from __future__ import annotations

from logging import INFO
from time import perf_counter
from types import TracebackType

from backend.http.asgi import RECEIVED_EXTENSION
from backend.http.request import Request
from backend.http.route_table import Match
from backend.http.sending import role_of
from backend.security.client_claims import address_for_logs
from backend.telemetry.latencies import Labels, not_counted
from backend.telemetry.logs import REQUESTS
from backend.telemetry.telemetry import Telemetry
from backend.telemetry.tracing import TRACE
from backend.wire.answer import MARK, Answer

UNLOGGED = frozenset(("internal/heartbeat", "processors", "health", "metrics"))
"""Routes whose requests are repeated every second or so: they have no log line and no span."""

DISCONNECTED_STATUS = 499
"""The status that is counted for requests whose clients did not wait for the answer, as in
nginx."""


class Measured:
    """Counts a request when it ends: with `answer` if it was set, else with the streamed answer.

    For a streamed answer, the duration is counted until the answer starts, because its end depends
    on the client.
    """

    __slots__ = ("_match", "_request", "_telemetry", "answer")

    def __init__(self, telemetry: Telemetry, match: Match, request: Request) -> None:
        self._telemetry, self._match, self._request = telemetry, match, request
        self.answer: Answer | None = None

    def __enter__(self) -> Measured:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            self._count()
        except Exception as failure:
            not_counted(failure)

    def _count(self) -> None:
        request, answer = self._request, self.answer
        if answer is not None:
            status, role = answer.status, role_of(answer.headers)
        else:
            status, role = request.status or DISCONNECTED_STATUS, request.answered_by
        ended = request.started_at or perf_counter()
        began = request.scope.get("extensions", {}).get(RECEIVED_EXTENSION, ended)
        view = self._match.view
        labels = Labels(self._match.route.label, "" if view is None else view.name, role, status)
        latencies, spans = self._telemetry.latencies, self._telemetry.spans
        latencies.observe(latencies.series(labels), ended - began, ended)
        if labels.route in UNLOGGED:
            return
        if REQUESTS.isEnabledFor(INFO):
            _log(request, labels, ended - began)
        if spans is not None and (trace := TRACE.get()) is not None:
            spans.record(trace, request.method, labels, ended - began)


def _log(request: Request, labels: Labels, seconds: float) -> None:
    """Writes the log line of a request. The key is not in the line; nginx's access log has the
    URI."""
    sender = request.header(MARK)
    fields = {
        "method": request.method,
        **labels._asdict(),
        "duration_ms": round(seconds * 1000, 3),
        "client": address_for_logs(request.client, request.socket_address),
        "forwarded_by": None if sender is None else sender.decode("latin-1")[:256],
    }
    message = f"{request.method} {labels.route} {labels.view} {labels.status}"
    REQUESTS.info(message, extra={"fields": fields})
