"""Decoders of byte streams: lines (NDJSON) and server-sent events (WHATWG HTML, 9.2)."""

from __future__ import annotations

from dataclasses import dataclass, field


class LineDecoder:
    """Splits chunks into lines. An incomplete line is kept until its end arrives."""

    def __init__(self) -> None:
        self._incomplete_line = b""

    @property
    def is_at_line_start(self) -> bool:
        """Whether everything fed so far ends with a complete line."""
        return not self._incomplete_line

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = (self._incomplete_line + chunk).split(b"\n")
        self._incomplete_line = lines.pop()
        return lines


@dataclass(slots=True)
class Event:
    """One server-sent event; `kind` is its `event:` field."""

    id: str = ""
    kind: str = ""
    data: list[str] = field(default_factory=list)


class EventDecoder:
    """Splits chunks into events. Comments and unknown fields are ignored."""

    def __init__(self) -> None:
        self._lines = LineDecoder()
        self._event = Event()

    def feed(self, chunk: bytes) -> list[Event]:
        events = []
        for line in self._lines.feed(chunk):
            text = line.decode().rstrip("\r")
            if not text:
                if self._event.data:
                    events.append(self._event)
                self._event = Event()
                continue
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                self._event.id = value
            elif name == "event":
                self._event.kind = value
            elif name == "data":
                self._event.data.append(value)
        return events
