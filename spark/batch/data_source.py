"""The Spark data source `queryable`: writing pushes a view, reading reads it back."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from model.formats.schemas import CONFLUENT
from model.pushes.manifest import ManifestError, Pinned, push_url
from model.views import View
from queryable.client.settings import client_settings
from spark.batch.encoder import KEY, VALUE
from spark.batch.folder import PushFolder, new_id
from spark.batch.reader import RemoteView, ViewReader, schema_of
from spark.batch.writer import RUN_BYTES, PushWriter
from spark.deployment import read_deployment
from spark.errors import JobError
from spark.processes.sizing import is_local

_KEEP = 3  # pushes


def register(session: SparkSession) -> None:
    """Make `format("queryable")` known to a session."""
    _use_this_python(session)
    session.dataSource.register(Queryable)


def _use_this_python(session: SparkSession) -> None:
    """Make the workers of a local master use this Python. Without PYSPARK_PYTHON, they would use
    the first python3 on the PATH, which may not have the project's packages."""
    if "PYSPARK_PYTHON" in os.environ or is_remote():
        return
    context = session.sparkContext
    if is_local(context.master or ""):
        context.pythonExec = sys.executable


class Queryable(DataSource):
    """Options for writing:

    view         the name of the view
    views        the path of views.toml, on the driver (default: views.toml)
    offsets      `pin(…).encode()`: the end offsets before the read
    path         the folder of the pushes, instead of `push` in views.toml
    keep         how many pushes stay in the folder (default: 3)
    runBytes     bytes of keys and values that a task sorts at once (default: 64 MiB)


    Options for reading:

    url          of the proxy or a backend (default: QUERYABLE_URL, else http://127.0.0.1:8080)
    view         the name of the view
    tokenFile    a file with the token, on all machines
    stale        allow, or never
    """

    @classmethod
    def name(cls) -> str:
        return "queryable"

    def schema(self) -> StructType:
        """The schema of the DataFrame that is read. Raises JobError."""
        return schema_of(self._remote_view().describe())

    def reader(self, schema: StructType) -> DataSourceReader:
        return ViewReader(self._remote_view(), schema)

    def _remote_view(self) -> RemoteView:
        name = self.options.get("view")
        if not name:
            raise JobError('the option "view" is missing')
        url = client_settings(self.options.get("url"), 5, False, None, None).base_url
        return RemoteView(url, name, self.options.get("tokenFile"), self.options.get("stale"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a new push. Raises JobError for wrong options."""
        if not overwrite:
            raise JobError('a push replaces the whole view: write with .mode("overwrite")')
        views = self.options.get("views", "views.toml")
        view = self._view(views)
        pinned = self._pinned(view)
        url = self.options.get("path") or view.push
        if url is None:
            raise JobError(
                f'{views}: view {view.name} has no folder for pushes. Add push = "…", which '
                "instances need, too"
            )
        _check_columns(schema, view)
        return PushWriter(
            replace(view),  # without cached codecs, which may not be picklable
            pinned,
            PushFolder(push_url(url, Path(views)), new_id()),
            job=self.options.get("job", ""),
            keep=self._number("keep", _KEEP, 1000),
            run_bytes=self._number("runBytes", RUN_BYTES, 1 << 40),
        )

    def _view(self, views: str) -> View:
        by_name = {view.name: view for view in read_deployment(Path(views)).views}
        name = self.options.get("view")
        if name not in by_name:
            raise JobError(
                f'the option "view" is {name!r}; {views} has the views {", ".join(by_name)}'
            )
        view = by_name[name]
        if CONFLUENT in (view.key_schema, view.value_schema):
            raise JobError(
                f"view {view.name} has schemas from a registry, which a push does not support"
            )
        return view

    def _pinned(self, view: View) -> Pinned:
        text = self.options.get("offsets")
        if text is None:
            raise JobError(
                'the option "offsets" is missing. Before the job reads its data, call '
                "spark.batch.offsets.pin(view, bootstrap_servers), and give its encode(): live "
                "records from these offsets on are applied on top of the push"
            )
        try:
            pinned = Pinned.decode(text)
        except ManifestError as e:
            raise JobError(f'the option "offsets" is not from pin(…).encode(): {e}') from None
        if (pinned.view, pinned.topic) != (view.name, view.topic):
            raise JobError(f"the offsets were pinned for view {pinned.view}, not for {view.name}")
        return pinned

    def _number(self, option: str, default: int, maximum: int) -> int:
        text = self.options.get(option, str(default))
        if not re.fullmatch(r"[0-9]{1,15}", text, re.ASCII) or not 1 <= int(text) <= maximum:
            raise JobError(f'the option "{option}" is {text!r}: it must be from 1 to {maximum}')
        return int(text)


def _check_columns(schema: StructType, view: View) -> None:
    columns: list[Any] = schema.fieldNames()
    if KEY not in columns:
        raise JobError(f"the DataFrame has no column {KEY}; it has {', '.join(columns)}")
    if VALUE not in columns and not view.value_codec.is_json:
        raise JobError(
            f"the DataFrame has no column {VALUE}, and view {view.name} has {view.value} values; "
            "only JSON values are made of all columns"
        )
