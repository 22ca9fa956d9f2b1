"""Requests that append a record, and reads of appended records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.pipelining.example import NOTES, ORDERS, home
from tests.fuzz.pipelining.kinds.values import path_of, read
from tests.fuzz.pipelining.requests import (
    Answer,
    Draw,
    Kind,
    Request,
    is_document,
    is_problem,
    json_body,
)
from tests.support.topics import Log


@dataclass
class Appends:
    """`topics`: by view. `stored`: the key of the record at each partition and offset, as answered.

    Each record has a key of its own.
    """

    topics: Mapping[str, str]
    stored: dict[tuple[int, int], str] = field(default_factory=dict)
    _made: int = 0

    def kinds(self) -> list[Kind]:
        return [Kind(5, self._append), Kind(5, self._appended), Kind(1, self._not_allowed, True)]

    def _append(self, draw: Draw) -> Request:
        self._made += 1
        key = f"a{self._made}"

        def check(answer: Answer) -> bool:
            found = answer.document
            place = found["partition"], found["offset"]
            is_home = place[0] == home(key.encode())
            is_right = answer.status == 200 and is_home and place not in self.stored
            if is_right:
                self.stored[place] = key
            return is_right

        topic = self.topics[NOTES]
        return Request(
            "POST", f"/topics/{topic}/records", check, f"append:{topic}",
            **json_body({"key": key, "value": _note(key)}),
        )  # fmt: skip

    def _appended(self, draw: Draw) -> Request:
        """A read that sees a record."""
        if not self.stored:
            return self._append(draw)
        recent = [*self.stored.items()][-500:]
        (partition, offset), key = recent[draw.number % len(recent)]
        path = f"{path_of(NOTES, key)}?min_offset={partition}:{offset}"
        check = is_document({"key": key, "value": _note(key)})
        return Request("GET", path, check, read(NOTES))

    def _not_allowed(self, draw: Draw) -> Request:
        topic = self.topics[ORDERS]
        check = is_problem(404, "no-such-resource", f"Topic {topic} ")
        body = json_body({"key": f"k{draw.number}", "value": {}})
        return Request("POST", f"/topics/{topic}/records", check, f"append:{topic}", **body)

    def are_in(self, logs: list[Log]) -> bool:
        """Whether the partitions of the topic have each record where the answer has said."""
        found = {
            (partition, offset): (key.decode(), json.loads(written or b"null"))
            for partition, log in enumerate(logs)
            for offset, _, key, written in log.records
        }
        return all(found.get(place) == (key, _note(key)) for place, key in self.stored.items())


def _note(key: str) -> dict[str, Any]:
    return {"note": key}
