"""The wheel: its contents, and that it works without the rest of the project: also the two commands
of docs/your-own-topic.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from local.kafka.broker import Broker, quiet_admin
from local.ports import free_ports
from tests.support.docs_examples import examples_run_by
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer
from tests.system.queryable.terminal import Terminal
from tests.system.queryable.wheel import PACKAGES, PROJECT, ROOT, build_wheel, install_wheel, run

# files in the packages' folders that only a checkout needs
LEFT_OUT = {"local/install-packages"}
PAGE = ROOT / "docs" / "your-own-topic.md"
ONE_MINUTE = 60.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheel(wheel, tmp_path_factory.mktemp("installed"))


def test_the_wheel_has_all_files_of_its_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    shared = re.compile(r"[^/]+\.data/data/share/queryable-topics/(.*)")
    of_nginx = {found[1] for name in names if (found := shared.fullmatch(name))}
    packed = {name for name in names if not shared.fullmatch(name)}
    files = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(files) > 100
    assert files >= LEFT_OUT
    assert packed == files - LEFT_OUT
    proxy = {str(path.relative_to(ROOT)) for path in (ROOT / "proxy").rglob("*") if path.is_file()}
    assert of_nginx == {"nginx.conf", *proxy} - {"proxy/.luacheckrc", "proxy/README.md"}


def test_the_client_works_with_only_the_wheel_installed(installed: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.metadata as m, queryable; from queryable import AsyncClient, Client;"
        "Client('http://127.0.0.1:9').close();"
        "print(queryable.__file__); print(m.version('queryable-topics'))"
    )
    path, version = run(installed / "python", "-c", code, cwd=tmp_path).splitlines()
    assert Path(path).is_relative_to(installed.parent)
    assert version == PROJECT["project"]["version"]
    assert "watch" in run(installed / "queryable", "--help", cwd=tmp_path)
    assert version in run(installed / "queryable", "--version", cwd=tmp_path)


def test_a_backend_can_be_imported_with_only_the_wheel_installed(
    installed: Path, tmp_path: Path
) -> None:
    code = "import backend.instance.app; print(backend.__file__)"
    path = run(installed / "python", "-c", code, cwd=tmp_path).strip()
    assert Path(path).is_relative_to(installed.parent)


def children_of(pid_files: Path) -> list[int]:
    return [json.loads(path.read_text())["pid"] for path in pid_files.glob("*.pid")]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_own_topic_answers_after_two_commands(
    broker: Broker, make_topic: MakeTopic, installed: Path, tmp_path: Path
) -> None:
    topic = make_topic(3)
    entries = [(b"order/%d" % n, b'{"total":%d}' % n) for n in range(100)]
    Writer(broker.bootstrap_servers).send(topic, entries)
    before = set(quiet_admin(broker.bootstrap_servers).list_topics(timeout=10).topics)
    init, serve = (
        re.sub(r"\borders\b", topic, example.command)
        .replace("broker:9092", broker.bootstrap_servers)
        .split()[1:]
        for example in examples_run_by(Path(__file__), PAGE)
    )
    env = {name: value for name, value in os.environ.items() if name[:10] != "QUERYABLE_"}
    env = {**env, "PWD": str(tmp_path)}
    tool = ["env", f"--chdir={tmp_path}", str(installed / "queryable")]
    began = time.monotonic()
    with Terminal([*tool, *init], env, columns=80) as terminal:
        assert terminal.wait() == 0, terminal.text
        assert "100 of 100 keys are in the partition of murmur2" in " ".join(terminal.text.split())
        assert "next: queryable serve --bootstrap-servers" in terminal.text
    proxy, backend = free_ports(2)
    ports = ["--port", str(proxy), "--backend-port", str(backend), "--instances", "1"]
    with Terminal([*tool, *serve, *ports], env, columns=200) as terminal:
        terminal.wait_for(lambda text: "Ctrl-C stops everything" in text, ONE_MINUTE)
        assert time.monotonic() - began < 2 * ONE_MINUTE
        assert f"1 view of views.toml on http://127.0.0.1:{proxy}" in terminal.text
        [command] = re.findall(r"^  (curl .*)$", terminal.text, re.M)
        answered = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=20, check=True
        ).stdout
        assert answered.startswith("HTTP/1.1 200 OK")
        assert '{"key":"order/0","value":{"total":0}}' in answered
        views = tmp_path / "views.toml"
        views.write_text(views.read_text().replace('"json"', '"jsno"'))
        terminal.wait_for(lambda text: "views.toml was edited and is wrong" in text)
        pids = children_of(tmp_path / ".queryable")
        assert len(pids) == 2
        for _ in range(3):  # the others have no effect
            terminal.interrupt()
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.text
    assert not any(map(is_running, pids))
    assert not list((tmp_path / ".queryable").glob("*.pid"))
    after = set(quiet_admin(broker.bootstrap_servers).list_topics(timeout=10).topics)
    assert {name for name in after - before if name[:2] != "__"} == set()
