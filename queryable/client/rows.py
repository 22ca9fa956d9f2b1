"""The rows that calls such as `scan` return. They are fetched page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from queryable.client import dataframes
from queryable.client.protocol.answers import Source
from queryable.client.protocol.pagination import Pager
from queryable.client.protocol.transport import Call

T = TypeVar("T")


class Rows(Generic[T]):
    """Rows that are fetched page by page during iteration. Each `iter()` starts a new query.

    `source`: where the latest page comes from, and how fresh it is.
    """

    def __init__(self, run: Callable[[Call[Any]], Any], start: Callable[[], Call[Any]]) -> None:
        self._run = run
        self._start = start
        self.source: Source | None = None

    def __iter__(self) -> Iterator[T]:
        pager: Pager[T] = self._run(self._start())
        try:
            while (page := self._run(pager.next())) is not None:
                self.source = pager.source
                yield from page
        finally:
            self._run(pager.close())

    def to_pandas(self) -> Any:
        """All rows as a pandas.DataFrame; see `dataframes`."""
        return dataframes.to_pandas(list(self))

    def to_arrow(self) -> Any:
        """All rows as a pyarrow.Table; see `dataframes`."""
        return dataframes.to_arrow(list(self))

    def to_polars(self) -> Any:
        """All rows as a polars.DataFrame; see `dataframes`."""
        return dataframes.to_polars(list(self))


class AsyncRows(Generic[T]):
    """Rows that are fetched page by page during iteration. Each `aiter()` starts a new query.

    `source`: where the latest page comes from, and how fresh it is.
    """

    def __init__(
        self,
        run: Callable[[Call[Any]], Awaitable[Any]],
        start: Callable[[], Call[Any]],
    ) -> None:
        self._run = run
        self._start = start
        self.source: Source | None = None

    async def __aiter__(self) -> AsyncIterator[T]:
        pager: Pager[T] = await self._run(self._start())
        try:
            while (page := await self._run(pager.next())) is not None:
                self.source = pager.source
                for row in page:
                    yield row
        finally:
            await self._run(pager.close())

    async def to_list(self) -> list[T]:
        """All rows."""
        return [row async for row in self]

    async def to_pandas(self) -> Any:
        """All rows as a pandas.DataFrame; see `dataframes`."""
        return dataframes.to_pandas(await self.to_list())

    async def to_arrow(self) -> Any:
        """All rows as a pyarrow.Table; see `dataframes`."""
        return dataframes.to_arrow(await self.to_list())

    async def to_polars(self) -> Any:
        """All rows as a polars.DataFrame; see `dataframes`."""
        return dataframes.to_polars(await self.to_list())
