import contextlib
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from backend.security.cluster_secret import ClusterSecret
from local import commands
from local.errors import LocalError
from local.ports import LOOPBACK, free_ports
from local.settings import REPOSITORY, StackSettings, load_settings
from local.spark_views import source_offsets, spark_failure
from local.stack import supervisor
from local.stack.nginx import find_nginx, lay_out
from local.stack.run_folder import (
    background_marker,
    end_orphans,
    lock,
    running_in_background,
    stop_background,
)
from local.stack.services import (
    HUGE_PAGES,
    backend_environment,
    create_cluster_secret,
    proxy_environment,
)
from local.stack.stack import Stack

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


def test_a_port_in_use_is_named_with_its_setting_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("QUERYABLE_PROXY_PORT", str(port))
        monkeypatch.setenv("QUERYABLE_RUN_DIR", str(tmp_path))
        with pytest.raises(LocalError, match=f"port {port} .* nginx .* QUERYABLE_PROXY_PORT"):
            Stack(load_settings()).start(print)
    assert supervisor.recorded(tmp_path) == {}


def test_the_demo_needs_nginx(tmp_path: Path) -> None:
    settings = load_settings(run_dir=tmp_path, without_nginx=True)
    with pytest.raises(LocalError, match="remove QUERYABLE_WITHOUT_NGINX"):
        Stack(settings).start(print)
    assert supervisor.recorded(tmp_path) == {}


def test_without_nginx_the_port_of_the_first_backend_is_checked(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        settings = load_settings(
            bootstrap_servers="127.0.0.1:1", without_nginx=True, proxy_port=port, run_dir=tmp_path
        )
        with pytest.raises(LocalError, match=f"port {port} .* first backend .*QUERYABLE_PROXY_P"):
            Stack(settings).start(print)


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        (
            {"proxy": 8082, "backend": 8081},
            "nginx and a backend would both use port 8082: choose another one with "
            "QUERYABLE_PROXY_PORT or QUERYABLE_BACKEND_PORT.",
        ),
        (
            {"broker": 8083},
            "the Kafka broker and a backend would both use port 8083: choose another one with "
            "QUERYABLE_BROKER_PORT or QUERYABLE_BACKEND_PORT.",
        ),
        (
            {"broker": 8080},
            "nginx and the Kafka broker would both use port 8080: choose another one with "
            "QUERYABLE_PROXY_PORT or QUERYABLE_BROKER_PORT.",
        ),
        (
            {"backend": 65_534},
            "QUERYABLE_BACKEND_PORT is 65534, so 3 backends need the ports up to 65536, but the "
            "last one is 65535: choose a lower one.",
        ),
    ],
)
def test_ports_that_cannot_all_be_used_are_named_with_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ports: dict[str, int], said: str
) -> None:
    monkeypatch.setenv("QUERYABLE_RUN_DIR", str(tmp_path))
    for name, port in ports.items():
        monkeypatch.setenv(f"QUERYABLE_{name.upper()}_PORT", str(port))
    with pytest.raises(LocalError) as raised:
        Stack(load_settings()).start(print)
    assert str(raised.value) == said
    assert supervisor.recorded(tmp_path) == {}


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYABLE_INSTANCES", "many")
    with pytest.raises(LocalError, match=r"QUERYABLE_INSTANCES: .*integer.*\(it is 'many'\)"):
        load_settings()


def test_a_second_stack_in_the_same_folder_is_an_error(tmp_path: Path) -> None:
    with (
        contextlib.closing(lock(tmp_path)),
        pytest.raises(LocalError, match="another `make demo`"),
    ):
        lock(tmp_path)
    lock(tmp_path).close()


def test_a_run_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match=r"cannot write .*/file/run: .*QUERYABLE_RUN_DIR"):
        lock(tmp_path / "file" / "run")


def test_orphans_of_a_crashed_run_are_ended(tmp_path: Path) -> None:
    crashed = supervisor.Supervisor(tmp_path, die_with_parent=False)
    processes = [crashed.start(name, SLEEPER).process for name in ("broker", "nginx")]
    crashed.release()
    messages: list[str] = []
    end_orphans(tmp_path, messages.append)
    assert messages == ["stopping processes of an earlier run: broker, nginx"]
    assert all(process.wait(20) for process in processes)


def test_a_stack_in_the_background_is_not_an_orphan(tmp_path: Path) -> None:
    running = supervisor.Supervisor(tmp_path, die_with_parent=False)
    process = running.start("nginx", SLEEPER).process
    running.release()
    background_marker(tmp_path).touch()
    with pytest.raises(LocalError, match=r"\(nginx\): `make down` stops it"):
        end_orphans(tmp_path, print)
    assert process.poll() is None
    assert running_in_background(tmp_path) == ["nginx"]
    assert stop_background(tmp_path) == ["nginx"]
    assert process.wait(20) != 0
    assert not background_marker(tmp_path).exists()
    assert running_in_background(tmp_path) == []
    assert stop_background(tmp_path) == []


def test_parts_of_a_stack_in_the_background_that_have_ended_are_named(tmp_path: Path) -> None:
    settings = StackSettings(run_dir=tmp_path)
    stack = Stack(settings, background=True)
    started = {name: stack._children.start(name, SLEEPER) for name in ("broker", "b-1", "nginx")}
    stack.detach()
    commands.up(settings)  # it is running
    for name in ("nginx", "b-1"):
        started[name].process.kill()
        started[name].process.wait(20)
    try:
        with pytest.raises(LocalError, match=r"b-1, nginx have ended .*make down.*make up"):
            commands.up(settings)
    finally:
        assert stop_background(tmp_path) == ["broker"]
    assert started["broker"].process.wait(20) != 0


def test_each_kafka_has_its_own_state_folder(tmp_path: Path) -> None:
    embedded = StackSettings(run_dir=tmp_path, bootstrap_servers="")
    other = StackSettings(run_dir=tmp_path, bootstrap_servers="a:9092,b:9092")
    assert embedded.state_dir == tmp_path / "state" / "embedded"
    assert other.state_dir == tmp_path / "state" / "a-9092-b-9092"


def test_backends_ask_for_huge_pages_unless_the_user_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = StackSettings(run_dir=tmp_path)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert HUGE_PAGES.items() <= backend_environment(settings, 1, 8081).items()
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    assert backend_environment(settings, 1, 8081)["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=0"


def test_backends_and_nginx_of_a_stack_have_the_same_secret(tmp_path: Path) -> None:
    settings = StackSettings(run_dir=tmp_path)
    create_cluster_secret(settings)
    of_backend = backend_environment(settings, 1, 8081)["QUERYABLE_CLUSTER_SECRET_FILE"]
    of_nginx = proxy_environment(settings)["QUERYABLE_CLUSTER_SECRET_FILE"]
    assert of_backend == of_nginx
    file = Path(of_nginx)
    keys = ClusterSecret(file, "queryable-topics").current()  # checks the permissions
    create_cluster_secret(settings)
    assert ClusterSecret(file, "queryable-topics").current() == keys, "also of the next start"


def test_nginx_accepts_its_folder_and_listens_on_loopback_only(tmp_path: Path) -> None:
    [port] = free_ports(1)
    for _ in range(2):  # a second call changes nothing
        command = lay_out(tmp_path / "nginx", port)
    done = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "nginx" / "listen.conf").read_text() == f"listen 127.0.0.1:{port};\n"


def test_the_number_of_workers_of_nginx_can_be_given(tmp_path: Path) -> None:
    command = lay_out(tmp_path / "nginx", 9, workers=7)
    command[command.index(find_nginx())] = "echo"
    options = subprocess.check_output(command, text=True)
    assert options.endswith(" -g daemon off; worker_processes 7;\n")


def test_outside_containers_no_server_listens_on_all_addresses() -> None:
    sources = list(REPOSITORY.glob("local/**/*.py"))
    assert REPOSITORY / "local" / "kafka" / "broker_config.py" in sources
    for path in [*sources, REPOSITORY / "nginx.conf"]:
        assert "0.0.0.0" not in re.sub(r"#.*", "", path.read_text()), path


def test_a_view_that_keeps_failing_is_an_error() -> None:
    offsets = {
        "source_offsets": {"flights": {"0": 5}},
        "last_error": "it failed",
        "is_final": False,
    }
    progress = {
        "airports": {**offsets, "state": "failed", "restarts": 2},
        "departures": {**offsets, "state": "running", "restarts": 9},
    }
    assert source_offsets(progress) == {
        "airports": {("flights", 0): 5},
        "departures": {("flights", 0): 5},
    }
    assert spark_failure(progress, ["airports", "departures", "visits"]) is None
    progress["airports"]["restarts"] = 3
    assert spark_failure(progress, ["departures"]) is None
    message = spark_failure(progress, ["departures", "airports"])
    assert message == "Spark cannot derive airports: it failed"


def test_a_view_that_is_not_started_again_is_an_error_at_once() -> None:
    refused = {"source_offsets": {}, "last_error": "a rule was edited", "restarts": 0}
    progress = {"visits": {**refused, "state": "failed", "is_final": True}}
    assert spark_failure(progress, ["visits"]) == "Spark cannot derive visits: a rule was edited"
    progress["visits"]["state"] = "waiting"
    assert spark_failure(progress, ["visits"]) is None
