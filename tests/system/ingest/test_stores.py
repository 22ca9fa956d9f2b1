"""Stores that are damaged on disk are set aside and rebuilt, and the answers are correct."""

from __future__ import annotations

from pathlib import Path

from tests.support.client import Response, key_path
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

KEYS = [f"key {n}" for n in range(120)]
PARTITIONS = 6


def only(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[-1]


def test_damaged_stores_are_rebuilt(deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, {key: f"{key} old" for key in KEYS})
    [backend] = deploy(views_toml(v={"topic": topic}), wait_timeout="0").start()
    assert backend.stop() == 0
    # reopening writes the contents of the write-ahead logs to files
    backend.start()
    writer.table(topic, {key: key for key in KEYS})
    backend.wait(
        lambda: all(backend.get(key_path("v", key)).json()["value"] == key for key in KEYS),
        "the newest values",
    )
    backend.kill()
    store = [backend.data_dir / "v" / str(partition) for partition in range(PARTITIONS)]
    (store[0] / "CURRENT").write_bytes(b"\xff" * 16)
    only(store[1], "MANIFEST-*").write_bytes(b"\x00garbage" * 50)
    table = only(store[2], "*.sst")
    table.write_bytes(b"\x00" * table.stat().st_size)
    only(store[3], "*.sst").unlink()
    log = only(store[4], "*.log")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    (store[5] / "CURRENT").unlink()

    def judge(path: str, answer: Response) -> str:
        if answer.status == 503:
            return ""
        known = answer.status == 200 and answer.json()["value"].removesuffix(" old")
        return "" if known and path == key_path("v", known) else "wrong"

    with ReadLoop(
        [backend.port], [key_path("v", key) for key in KEYS], judge, threads=2
    ) as read_loop:
        backend.start()
        rounds = read_loop.rounds()
        backend.wait(lambda: read_loop.check() or read_loop.rounds() > rounds, "everything once")
    for key in KEYS:
        assert backend.get(key_path("v", key)).json()["value"] == key
    # a truncated write-ahead log is not damage: its rest matches its position
    for partition in (0, 1, 2, 3, 5):
        backend.wait_log(f"view v, partition {partition} is rebuilt: ")
        assert list(store[partition].parent.glob(f"{partition}.aside-*"))
    assert "partition 4 is rebuilt" not in backend.log()
    assert backend.get("/instance").json()["rebuilds"] >= 5
