"""Scans of versioned views, in which few keys may have most of the entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.reference.tables import Record
from tests.unit.backend.queries.scans.any_partition import cluster, everywhere

VERSIONS = 3_000


@pytest.mark.parametrize("target", ["keys", "keys?order=desc", "count?exact=true", "top?by=n"])
def test_not_all_versions_of_a_key_are_read(tmp_path: Path, target: str) -> None:
    """Regression: a response ended only after all versions of a key, whatever time that took, so
    the instance seemed to hang, and a page that reached such a key was 503."""
    with cluster(tmp_path, store="versioned") as made:
        values: dict[bytes, list[bytes | None]] = {
            b"a": [b'{"n":1}'],
            b"hot": [b'{"n":%d}' % n for n in range(VERSIONS)],
            b"hot and deleted": [*[b'{"n":9}'] * VERSIONS, None],
            b"z": [b'{"n":2}', b'{"n":3}'],
        }
        for key, versions in values.items():
            log = made.logs[made.home(key)]
            for time, value in enumerate(versions):
                made.write(Record(len(log), key, (), value, time), made.home(key))
        made.settle()
        expected = {"a": 1, "hot": VERSIONS - 1, "z": 3}
        for status, found in everywhere(made, target):
            assert status == 200
            if target.startswith("count"):
                assert found["count"] == len(expected)
            else:
                items = {item["key"]: item["value"]["n"] for item in found["items"]}
                assert items == expected
        read = sum(
            node.context.telemetry.scans["orders"].entries["scan"] for node in made.nodes.values()
        )
        assert read < len(made.nodes) * VERSIONS
