"""Pushes in a store with S3's protocol, and in file systems whose library is not installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from model.pushes.manifest import CURRENT
from spark.batch.folder import PushFolder
from spark.errors import JobError
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.pushes import push

ROWS = {f"k{n}": f'{{"n": {n}}}' for n in range(50)}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
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


def test_pushes_in_s3(tmp_path: Path, bucket: str) -> None:
    view = replace(ORDERS, push=bucket)
    cluster = Cluster(tmp_path, view, instances=1, partitions=2)
    cluster.place([0, 0])
    cluster.settle()
    assert cluster.ask("b1", "GET", "/orders/k1").status == 404, "there is no push yet"
    pushes = [push(bucket, view, [0, 0], {**ROWS, "n": str(n)}, keep=2) for n in range(3)]
    for _ in range(3):
        cluster.settle()
    for key, value in {**ROWS, "n": "2"}.items():
        answer = cluster.ask("b1", "GET", f"/orders/{key}")
        assert json.loads(answer.body)["value"] == json.loads(value)
    [document] = cluster.nodes["b1"].pushes.documents(["orders"])
    assert (document["push"], document["error"]) == (pushes[-1], None)
    cluster.close()

    fs, root = PushFolder(bucket, "x")._open()
    kept = {path.rpartition("/")[2] for path in fs.ls(root, detail=False)}
    assert kept == {CURRENT, *pushes[1:]}


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
