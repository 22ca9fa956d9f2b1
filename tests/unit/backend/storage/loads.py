"""A store that many records are written to, and what it has then."""

from backend.storage.data_directory import DataDirectory
from backend.storage.rocksdb_store import RocksDBStore
from tests.support.in_process.examples import metadata, view
from tests.unit.backend.storage.stores import open_store

BATCH = 500
FAR_POSITION = 1_000_000


def new_store(folder: DataDirectory) -> RocksDBStore:
    store = open_store(folder)
    store.initialise(0, metadata(view()))
    return store


def key(n: int) -> bytes:
    return b"\x01key %d" % (n % 700)


def write(store: RocksDBStore, end: int) -> None:
    """Write the same keys repeatedly, up to the position `end`; every fifth change is a delete."""
    assert store.position is not None
    while store.position < end:
        batch, until = store.new_batch(), min(end, store.position + BATCH)
        for n in range(store.position, until):
            if n % 5:
                batch.put(key(n), b"%d" % n * 40)
            else:
                batch.delete(key(n))
        store.write(batch, until)


def entries_at(end: int) -> dict[bytes, bytes]:
    """The entries at the position `end`."""
    latest = {key(n): n for n in range(end)}
    return {k: b"%d" % n * 40 for k, n in latest.items() if n % 5}


def entries(store: RocksDBStore) -> dict[bytes, bytes]:
    return dict(store.scan(b"\x01", b"\x02"))


def has_vector_memtable(store: RocksDBStore) -> bool:
    """Whether its memtable is a vector, according to RocksDB's own log."""
    log = (store.path / "LOG").read_text()
    return "memtable_factory: VectorRepFactory" in log
