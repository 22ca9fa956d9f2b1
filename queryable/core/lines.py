"""Lines out of chunks: NDJSON, and server-sent events (WHATWG HTML, 9.2)."""

from __future__ import annotations

from dataclasses import dataclass, field


class LineSplitter:
    """Whole lines, as chunks come; what follows the last line feed waits for the next chunk."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_between(self) -> bool:
        """Whether all that has come are whole lines."""
        return not self._rest

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        return lines


@dataclass(slots=True)
class Event:
    id: str = ""
    kind: str = ""
    data: list[str] = field(default_factory=list)


class EventSplitter:
    """Events, as chunks come; comments and fields that nobody asked for are passed over."""

    def __init__(self) -> None:
        self._lines = LineSplitter()
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
