"""Point reads by kind of store: what a custom store returns, and refusals."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol, cast

import orjson

from backend.ingest.protocols import Store
from backend.ingest.store_partitions import StorePartition
from backend.instance.context import QueryContext
from backend.queries.point import Entry, Resolved, State, Unresolved, ViewReads
from backend.queries.routing import PLAIN, ReadOptions
from backend.queries.versions import VersionedReads
from backend.storage.bounded_reads import ReadBudget
from model.problems import BadRequest, Problem, StoreClosedError, StoreError
from model.records import entry_head
from model.views import View

log = logging.getLogger(__name__)

_NO_HEAD = entry_head(-1, 0)


def reads_of(view: View, context: QueryContext) -> ViewReads:
    """The point reads for the kind of store that this view has."""
    kind = view.kind
    if kind.is_custom:
        return CustomReads(view, context)
    if not kind.has_points:
        return WrongStoreReads(view, context)
    return (VersionedReads if kind.has_versions else ViewReads)(view, context)


class WrongStoreReads(ViewReads):
    """Refuses point reads of a view whose keys have many entries, and says which path has them."""

    def resolve(
        self, keys: Sequence[bytes], options: ReadOptions = PLAIN, budget: ReadBudget | None = None
    ) -> list[Resolved | Unresolved]:
        return [Unresolved(range(len(keys)), self._refusal())]

    def resolve_one(self, key: bytes, options: ReadOptions = PLAIN) -> tuple[State, Entry | None]:
        raise self._refusal()

    def _refusal(self) -> BadRequest:
        resource = self.view.kind.history
        return BadRequest(
            "wrong-store",
            f"View {self.view.name} has {resource}, not one value per key: use "
            f"/views/{self.view.name}/keys/{{key}}/{resource}.",
        )


class _Queried(Protocol):
    def query(self, key: bytes) -> Any: ...


class CustomReads(ViewReads):
    """Point reads of a view with a custom store. Its entries have an empty head: a result of the
    class does not come from one record."""

    def __init__(self, view: View, context: QueryContext) -> None:
        super().__init__(view, context)
        self.value_json = _as_it_is

    def look_up(self, store: Store, key: bytes, as_bytes: bool = False) -> Entry | None:
        # the answer may lack a record in another partition
        self.refuse_doubtful([key])
        value = cast(_Queried, store).query(key)
        if value is None:
            return None
        try:
            return _NO_HEAD + orjson.dumps(value)
        except TypeError as e:
            raise StoreError(f"the result of query is no JSON: {e}", damaged=False) from e

    def look_up_many(self, store: Store, keys: Sequence[bytes]) -> list[Entry | None]:
        return [self.look_up(store, key) for key in keys]

    def store_problem(
        self, store_partition: StorePartition, error: StoreClosedError | StoreError
    ) -> Problem:
        """The problem for an error of the class. What the class has stored is not damaged."""
        if isinstance(error, StoreClosedError):
            return super().store_problem(store_partition, error)
        log.error("view %s: %s", self.view.name, error)
        return Problem(
            "store-failed", f"The store of view {self.view.name} cannot answer this key."
        )


def _as_it_is(value: bytes) -> bytes:
    return value
