"""Spans arrive at a collector with the ids of the request."""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from backend.telemetry.latencies import Labels
from backend.telemetry.spans import Spans, spans_of
from backend.telemetry.tracing import Trace
from model.problems import ConfigurationError

TRACE = Trace("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "53995c3f42cd8ad8", "01")
LABELS = Labels("key", "orders", "active", 503)


class Collector:
    """Keeps the bodies that it gets."""

    def __init__(self) -> None:
        bodies: list[tuple[str, bytes]] = []
        self.bodies = bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                bodies.append((self.path, self.rfile.read(length)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,)).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    collector = Collector()
    yield collector
    collector.close()


def sent(collector: Collector) -> list[Any]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    found = []
    for path, body in collector.bodies:
        assert path == "/v1/traces"
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            of = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                found += [(of, span) for span in scope.spans]
    return found


def test_a_span_has_the_ids_the_time_and_the_labels_of_its_request(collector: Collector) -> None:
    spans = Spans(collector.endpoint, "b1", "shop", 1.0)
    spans.record(TRACE, "GET", LABELS, 0.25)
    spans.shutdown()

    [(resource, span)] = sent(collector)
    assert resource["service.instance.id"] == "b1"
    assert resource["service.namespace"] == "shop"
    assert span.trace_id.hex() == TRACE.trace_id
    assert span.span_id.hex() == TRACE.span_id
    assert span.parent_span_id.hex() == TRACE.parent_id
    assert span.end_time_unix_nano - span.start_time_unix_nano == 250_000_000
    assert span.name == "GET key"
    attributes = {each.key: each.value for each in span.attributes}
    assert attributes["http.response.status_code"].int_value == 503
    assert attributes["queryable.view"].string_value == "orders"
    assert span.status.code == 2  # error


def test_a_trace_is_sent_by_all_instances_or_by_none(collector: Collector) -> None:
    one, other = (Spans(collector.endpoint, id_, "shop", 0.5) for id_ in ("b1", "b2"))
    chosen = 0
    for number in range(200):
        trace = TRACE._replace(trace_id=f"{number * 0x9E3779B97F4A7C15 % (1 << 64):032x}")
        assert one.is_sampled(trace) == other.is_sampled(trace)
        chosen += one.is_sampled(trace)
    assert 60 < chosen < 140
    assert not one.is_sampled(TRACE._replace(flags="00"))
    one.shutdown()
    other.shutdown()


@pytest.mark.slow
def test_a_missing_collector_delays_nothing() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    spans = Spans("http://127.0.0.1:1", "b1", "shop", 1.0)
    for _ in range(10_000):
        spans.record(TRACE, "GET", LABELS, 0.001)
    began = time.monotonic()
    spans.shutdown()
    assert time.monotonic() - began < 10  # 1 s on a quiet machine


def test_without_an_endpoint_there_are_no_spans_and_no_packages_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert spans_of("", "b1", "shop", 1.0) is None
    with pytest.raises(ConfigurationError, match=r"pip install \x27\.\[otlp\]\x27"):
        spans_of("http://127.0.0.1:4318", "b1", "shop", 1.0)
