"""Which views can be compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from model.kinds.registry import KINDS
from queryable import BadUse
from queryable.cli.diff.sources import DiffSource
from tests.unit.queryable.cli.diff.test_matching import view


def source(store: str) -> DiffSource:
    described = view("string", store)
    client: Any = SimpleNamespace(
        view=lambda name: described, scan=None, windows=None, sessions=None
    )
    return DiffSource("http://a", cast(Any, client), "v")


@pytest.mark.parametrize("store", KINDS)
def test_each_kind_of_store_can_be_compared(store: str) -> None:
    assert source(store).view.store == store


def test_a_custom_store_cannot() -> None:
    with pytest.raises(BadUse, match="custom store"):
        source("package.module:Class")
