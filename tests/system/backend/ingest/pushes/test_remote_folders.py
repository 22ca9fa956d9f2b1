"""Pushes in a store with S3's protocol, in HDFS, and in file systems that cannot be used."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from getpass import getuser
from pathlib import Path

import pytest

from backend.ingest.pushes.remote_folder import RemoteFolder
from model.pushes import file_systems
from model.pushes.manifest import CURRENT
from spark.batch.folder import PushFolder
from spark.errors import JobError
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.pushes import push
from tests.system.backend.ingest.pushes.hdfs import hdfs

ROWS = {f"k{n}": f'{{"n": {n}}}' for n in range(50)}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket of a server on a free port."""
    pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    import fsspec.config
    import s3fs

    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    access = {"endpoint_url": f"http://{host}:{port}", "key": "id", "secret": "secret"}
    monkeypatch.setitem(fsspec.config.conf, "s3", access)
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem(**access).mkdir("s3://pushes")
    yield "s3://pushes/orders"
    s3fs.S3FileSystem.clear_instance_cache()
    with suppress(Exception):
        server.stop()


@pytest.fixture
def webhdfs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The URL of a folder of an HDFS that does not exist."""
    import fsspec.config

    monkeypatch.setitem(fsspec.config.conf, "webhdfs", {"user": getuser()})
    with hdfs(tmp_path / "hdfs") as url:
        yield f"{url}/pushes/orders"


@pytest.mark.parametrize("store", ["s3", "webhdfs"])
def test_pushes(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(store)
    view = replace(ORDERS, push=url)
    cluster = Cluster(tmp_path, view, instances=1, partitions=2)
    cluster.place([0, 0])
    cluster.settle()
    assert cluster.ask("b1", "GET", "/orders/k1").status == 404, "there is no push yet"
    pushes = [push(url, view, [0, 0], {**ROWS, "n": str(n)}, keep=2) for n in range(3)]
    for _ in range(3):
        cluster.settle()
    for key, value in {**ROWS, "n": "2"}.items():
        answer = cluster.ask("b1", "GET", f"/orders/{key}")
        assert json.loads(answer.body)["value"] == json.loads(value)
    [document] = cluster.nodes["b1"].pushes.documents(["orders"])
    assert (document["push"], document["error"]) == (pushes[-1], None)
    cluster.close()

    fs, root = PushFolder(url, "x")._open()
    kept = {path.rpartition("/")[2] for path in fs.ls(root, detail=False)}
    assert kept == {CURRENT, *pushes[1:]}


def test_a_name_node_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """All views' pushes are fetched by one thread, which must not wait for ever."""
    import requests

    monkeypatch.setattr(file_systems, "READ_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        folder = RemoteFolder(f"webhdfs://127.0.0.1:{silent.getsockname()[1]}/pushes/orders")
        with pytest.raises(requests.exceptions.ReadTimeout):
            folder.current()


def test_a_file_system_without_its_library_is_a_clear_error(tmp_path: Path) -> None:
    """Not installed here: it needs gcsfs."""
    view = replace(ORDERS, push="gcs://bucket/orders")
    cluster = Cluster(tmp_path, view, instances=1, partitions=1)
    cluster.place([0])
    cluster.settle()
    [document] = cluster.nodes["b1"].pushes.documents(["orders"])
    assert "gcsfs" in document["error"]
    with pytest.raises(JobError, match="gcsfs"):
        push("gcs://bucket/orders", view, [0], ROWS)
    cluster.close()
