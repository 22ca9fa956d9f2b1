"""Checks what a store made of pushed files contains, before it may answer.

The checksums have shown that the files are those of the job. This finds a job that writes other
entries than an instance would. It reads the bounds and a sample of the entries, because reading all
of them would take the instance's time from its clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from model.kinds.layout import ALL
from model.partitioner import partition_of
from model.pushes.manifest import ManifestError, PushFile
from model.records import ENTRY, ENTRY_HEAD_SIZE, EXPIRY, decode_entry, is_pushed
from model.views import View

_SAMPLE = 20  # entries from the start of each file
_AFTER_ALL = b"\xff"


class Scanner(Protocol):
    def scan(
        self, low: bytes, high: bytes, backwards: bool = False, once: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...

    def entries(self) -> int: ...


def check_content(
    store: Scanner, view: View, partition: int, partitions: int, files: Iterable[PushFile]
) -> None:
    """Raise ManifestError if the store does not have the content that the files should have."""
    files = tuple(files)
    first = next(store.scan(b"", _AFTER_ALL), None)
    last = next(store.scan(b"", _AFTER_ALL, backwards=True), None)
    if first is None or last is None:
        if files:
            raise ManifestError("the files have no entries")
        return
    if first[0][:1] != ENTRY or last[0][:1] not in (ENTRY, EXPIRY):
        raise ManifestError("the files have keys that are neither entries nor their expiry index")
    if store.entries() < sum(file.entries for file in files):
        raise ManifestError("the files have fewer entries than the manifest says")
    partitioner = partition_of(view.partitioner)
    for file in files:
        sample = list(islice(store.scan(file.first, ALL[1]), _SAMPLE))
        if not sample or sample[0][0] != file.first:
            raise ManifestError(f"{file.name} does not have its first key")
        for key, stored in sample:
            _check_entry(view, key, stored)
            bare = view.layout.entry_key(key).key
            if partitioner(bare, partitions) != partition:
                raise ManifestError(
                    f"{file.name} has a key of partition {partitioner(bare, partitions)} among "
                    f"those of partition {partition}"
                )


def _check_entry(view: View, key: bytes, stored: bytes) -> None:
    try:
        if len(stored) < ENTRY_HEAD_SIZE:
            raise ValueError("it has no timestamp and offset")
        view.key_codec.check(view.layout.entry_key(key).key)
        entry = decode_entry(stored)
        if not is_pushed(entry.offset):
            raise ValueError("its offset is that of a record")
        if entry.value is not None and view.value_codec.stores_values:
            view.value_codec.check(entry.value)
    except (ValueError, IndexError) as e:
        raise ManifestError(f"an entry is not one of view {view.name}: {e}") from None
