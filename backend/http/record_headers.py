"""Reads the headers of the record that a value comes from, for `headers=true` of a point read."""

from __future__ import annotations

from dataclasses import replace

import orjson

from backend.http.limits.gates import Gate
from backend.http.routes.document_threads import DocumentThreads
from backend.ingest.record_reader import RecordReader
from backend.wire.answer import Answer
from model.records import is_pushed
from model.views import View

_AT_ONCE = 4
_PATIENCE = 2.0  # s


class RecordHeaders:
    """Reads records again, in threads of its own. Used in the event loop."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._gate = Gate("reads of record headers", _AT_ONCE, _PATIENCE)
        self._threads = DocumentThreads("record-headers", _AT_ONCE)

    async def added(self, view: View, answer: Answer) -> Answer:
        """The answer with the headers of its record, or with null if the topic no longer has the
        record. Raises Unavailable or NotAcceptable."""
        assert answer.record is not None
        partition, offset, timestamp = answer.record
        headers = None
        if not is_pushed(offset):
            async with self._gate:
                headers = await self._threads.run(
                    self._reader.headers, view.topic, partition, offset, timestamp
                )
        body = b'%b,"headers":%b}' % (answer.body[:-1], orjson.dumps(headers))
        return replace(answer, body=body)

    def stop(self) -> None:
        self._threads.stop()
