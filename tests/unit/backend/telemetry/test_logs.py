"""Trace ids of requests, and log lines as JSON."""

from __future__ import annotations

import json
import logging
import re

import pytest

from backend.telemetry.logs import JsonFormatter, TextFormatter, formatter
from backend.telemetry.tracing import TRACE, Trace, trace_of, traced

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE_ID}-{SPAN_ID}-01".encode()


def test_a_trace_continues_with_an_id_of_its_own() -> None:
    trace = trace_of([(b"accept", b"*/*"), (b"traceparent", VALID)])
    assert (trace.trace_id, trace.parent_id, trace.flags) == (TRACE_ID, SPAN_ID, "01")
    assert re.fullmatch("[0-9a-f]{16}", trace.span_id)
    assert trace.span_id != SPAN_ID
    assert trace.header == f"00-{TRACE_ID}-{trace.span_id}-01".encode()
    assert trace_of([(b"traceparent", trace.header)]).parent_id == trace.span_id


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-" + b"0" * 16 + b"-01",
        VALID.upper(),
        VALID + b"-more",
        b"01" + VALID[2:],
        b'00-"}\n',
        VALID * 1000,
    ],
)
def test_without_a_valid_header_there_is_a_new_trace(value: bytes | None) -> None:
    headers = [] if value is None else [(b"traceparent", value)]
    first, second = trace_of(headers), trace_of(headers)
    assert re.fullmatch("[0-9a-f]{32}", first.trace_id)
    assert first.parent_id == ""
    assert first.trace_id not in (second.trace_id, TRACE_ID)


def test_requests_to_other_instances_have_the_trace() -> None:
    assert traced() == []
    token = TRACE.set(Trace(TRACE_ID, SPAN_ID, "", "00"))
    try:
        assert traced() == [(b"traceparent", VALID[:-1] + b"0")]
    finally:
        TRACE.reset(token)


def record(message: str, *args: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord(
        "backend.instance.app", logging.WARNING, "x.py", 1, message, args, None
    )
    made.__dict__.update(more)
    return made


def test_an_event_is_one_line_of_json() -> None:
    text = JsonFormatter("b1").format(record("%s\nof two lines", "a message"))
    line = json.loads(text)
    assert "\n" not in text
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "backend.instance.app",
        "instance": "b1",
        "message": "a message\nof two lines",
    }


def test_a_line_has_the_ids_of_its_request_its_fields_and_its_error() -> None:
    token = TRACE.set(Trace(TRACE_ID, SPAN_ID, "p" * 16, "00"))
    try:
        raise ValueError("damaged")
    except ValueError as error:
        made = record("failed", fields={"status": 500, "view": "orders"})
        made.exc_info = (ValueError, error, error.__traceback__)
        line = json.loads(JsonFormatter("b1").format(made))
    finally:
        TRACE.reset(token)
    assert (line["trace_id"], line["span_id"], line["parent_id"]) == (TRACE_ID, SPAN_ID, "p" * 16)
    assert (line["status"], line["view"]) == (500, "orders")
    assert line["error"].startswith("Traceback")
    assert line["error"].endswith("ValueError: damaged")


def test_no_text_breaks_a_line() -> None:
    for text in ("\ud800 half a pair", "\0\x1b[31m", "x" * 100_000):
        formatted = JsonFormatter("b1").format(record("%s", text))
        assert json.loads(formatted)["instance"] in ("b1", "'b1'")
        assert len(formatted) < 20_000


def test_the_form_is_chosen_by_the_setting() -> None:
    assert isinstance(formatter("json", "b1"), JsonFormatter)
    text = formatter("text", "b1")
    assert isinstance(text, TextFormatter)
    assert text.format(record("hello")).endswith(" b1 WARNING backend.instance.app hello")
