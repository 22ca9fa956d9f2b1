"""What tools for agents return is bounded."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from queryable.cli.agents.tools import MAX_BYTES, describe_view


class _Rows:
    source = None

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = iter(rows)

    def __aiter__(self) -> _Rows:
        return self

    async def __anext__(self) -> dict[str, Any]:
        for row in self._rows:
            return row
        raise StopAsyncIteration


class _Client:
    """The answers of a client, whose real ones are seen in tests/system/queryable/cli."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    async def view(self, name: str) -> Any:
        named = SimpleNamespace(name="json")
        return SimpleNamespace(
            name=name, store="key-value", key=named, value=named, description={"fields": {}}
        )

    def sql(self, *_: Any, **__: Any) -> _Rows:
        return _Rows(self._rows)

    async def count(self, _: str) -> int:
        return len(self._rows)


def test_columns_are_bounded_if_names_are_data() -> None:
    rows = [{"key": str(n), f"{n:04}" + "x" * 4000: n} for n in range(100)]
    described = asyncio.run(describe_view(cast(Any, _Client(rows)), "orders"))
    assert len(json.dumps(described["columns"])) <= MAX_BYTES
    assert described["columns"]["key"] == "string"
    assert described["left_out"].endswith(" more columns")


def test_few_columns_are_complete() -> None:
    described = asyncio.run(describe_view(cast(Any, _Client([{"key": "a", "n": 1}])), "orders"))
    assert described["columns"] == {"key": "string", "n": "int"}
    assert "left_out" not in described
