"""The writer of the data source: tasks write sorted files, and the driver publishes the push.

Each attempt of a task writes files of its own, and only the files of attempts that have succeeded
are in the manifest. So a task that failed, was killed or ran twice publishes nothing.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from model.pushes.manifest import MANIFEST, MAX_FILES, Manifest, Pinned, PushFile, layout_of
from model.views import View
from spark.batch.encoder import Encoder, Entries
from spark.batch.folder import PushFolder
from spark.batch.sst_files import duplicate_key, has_duplicates, key_hashes, write_file
from spark.errors import JobError

RUN_BYTES = 64 << 20
_ROW_BYTES = 100  # that a row takes in addition to its Arrow data


@dataclass
class TaskFiles(WriterCommitMessage):
    """The files of one successful task."""

    files: list[PushFile] = field(default_factory=list)


class PushWriter(DataSourceArrowWriter):
    """Writes one push. It is pickled: the driver makes it, tasks write, and the driver commits."""

    def __init__(
        self,
        view: View,
        pinned: Pinned,
        folder: PushFolder,
        job: str,
        keep: int,
        run_bytes: int = RUN_BYTES,
    ) -> None:
        """`keep`: the number of pushes that stay in the folder. `run_bytes`: the bytes of keys and
        values that a task sorts at once."""
        self._view = view
        self._pinned = pinned
        self._folder = folder
        self._job = job
        self._keep = keep
        self._run_bytes = run_bytes

    # in the tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        """Write the rows of a task. Raises RowError for a row that cannot be an entry."""
        context = TaskContext.get()
        task = "0-0" if context is None else f"{context.partitionId()}-{context.taskAttemptId()}"
        encoder = Encoder(
            self._view, self._pinned.partitions, self._folder.push, self._pinned.at_ms
        )
        written = TaskFiles()
        with tempfile.TemporaryDirectory(prefix="queryable-push-") as name:
            for entries_by_partition in _runs(encoder, iterator, self._run_bytes):
                for partition, entries in sorted(entries_by_partition.items()):
                    file = Path(name) / f"{partition}-{task}-{secrets.token_hex(8)}.sst"
                    written.files.append(write_file(file, partition, entries))
                    self._folder.upload(file)
                    file.unlink()
                    self._folder.write(_hashes_of(file.name), key_hashes(entries.keys))
        return written

    # in the driver

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the push. Raises RowError if a key is in several rows, and JobError."""
        written = [message.files for message in messages if isinstance(message, TaskFiles)]
        files = sorted(chain(*written), key=lambda file: (file.partition, file.first))
        for partition, count in Counter(file.partition for file in files).items():
            partition_files = [file for file in files if file.partition == partition]
            if count > MAX_FILES:
                raise JobError(
                    f"partition {partition} has {count} files; at most {MAX_FILES} are allowed. "
                    "Distribute the rows first: spark.batch.distribution.distribute"
                )
            self._refuse_duplicates(partition_files)
        manifest = Manifest(
            push=self._folder.push,
            pinned=self._pinned,
            layout=layout_of(self._view),
            created_at_ms=time.time_ns() // 1_000_000,
            job=self._job,
            files=tuple(files),
        )
        self._folder.publish(manifest)
        # the push is published: an error from here on must not fail the job
        with suppress(Exception):
            self._folder.keep_only({MANIFEST, *(file.name for file in files)})
            self._folder.delete_older(self._keep)

    def _refuse_duplicates(self, files: Sequence[PushFile]) -> None:
        """Raise RowError if a key is in two files of a partition. One file has a key only once."""
        if all(file.last < following.first for file, following in pairwise(files)):
            return
        if has_duplicates([self._folder.read(_hashes_of(file.name)) for file in files]):
            raise duplicate_key()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files, unless the push is published."""
        if not self._folder.is_current():
            self._folder.delete()


def _runs(
    encoder: Encoder, batches: Iterable[pa.RecordBatch], max_bytes: int
) -> Iterator[dict[int, Entries]]:
    """The entries of the batches, by partition, in runs of about `max_bytes`."""
    run: dict[int, Entries] = {}
    size = 0
    for batch in batches:
        for partition, entries in encoder.encode(batch).items():
            target = run.setdefault(partition, Entries())
            target.keys += entries.keys
            target.values += entries.values
            target.index += entries.index
        size += batch.nbytes + _ROW_BYTES * batch.num_rows
        if size >= max_bytes:
            yield run
            run, size = {}, 0
    if run:
        yield run


def _hashes_of(file: str) -> str:
    """The name of the file with the hashes of a file's keys."""
    return f"{file.removesuffix('.sst')}.hashes"
