"""Each item of a stream is one line, also for readers that end a line at a carriage return."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.in_process.examples import view
from tests.support.in_process.world import NDJSON, world

VALUES = [b'{\r\n  "a": 1\r\n}', b'{\r"a":\r1}', b'{\n"a": 1}', b'{"a":"\\r\\n"}', b"1"]


def test_line_breaks_of_values_are_spaces(tmp_path: Path) -> None:
    with world(tmp_path, view()) as made:
        made.put_all({b"%d" % number: value for number, value in enumerate(VALUES)})
        body = made.ask("keys", accept=NDJSON).body
        assert b"\r" not in body
        items = [json.loads(line) for line in body.splitlines()]
        assert [item["value"] for item in items] == list(map(json.loads, VALUES))
        page = made.ask("keys").body
        assert all(value in page for value in VALUES), "pages have the bytes of the record"
