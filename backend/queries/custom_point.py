"""Reads of a store of the user's own: whatever its `query` says, as JSON."""

from __future__ import annotations

import logging
from typing import Any, Protocol, cast

import orjson

from backend.queries.point import ViewReads, unreadable
from backend.queries.routing import PLAIN, ReadOptions
from backend.wire.answer import JSON, Answer
from model.problems import NotFound, Problem, StoreClosedError, StoreError

log = logging.getLogger(__name__)


class _Queried(Protocol):
    def query(self, key: bytes) -> Any: ...


class CustomReads(ViewReads):
    """Point reads of a view whose store is a class of the user's."""

    def read(self, key: bytes, options: ReadOptions = PLAIN) -> Answer:
        held = self.holder(key, options)
        headers = self.state_headers(held)
        # a record elsewhere may be what the answer lacks
        self.refuse_doubtful(key)
        try:
            value = cast(_Queried, held.store).query(key)
        except StoreClosedError as e:
            raise unreadable(held, e) from None
        except StoreError as e:
            # a fault of the class: what it has been fed is not worse for it
            log.error("view %s: %s", self.view.name, e)
            raise Problem(
                "store-failed", f"The store of view {self.view.name} cannot answer this key."
            ) from None
        if value is None:
            self.counts.missed += 1
            problem = NotFound("key-not-found", f"View {self.view.name} says nothing of this key.")
            return Answer(404, problem.headers() + headers, problem.body())
        self.counts.found += 1
        headers.append(JSON)
        body = b'{"key":%b,"value":%b}' % (self.view.key_codec.to_json(key), orjson.dumps(value))
        return Answer(200, headers, body)
