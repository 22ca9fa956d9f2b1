import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.security.cluster_secret import ClusterSecret
from local import http, ports
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.containers.compose import compose_command
from tests.support.nginx import lay_out

COMPOSE = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


PRODUCT = {"secret", "backend-1", "backend-2", "backend-3", "proxy"}


@pytest.mark.parametrize(
    ("profiles", "services"),
    [
        ([], PRODUCT),
        (["demo"], PRODUCT | {"broker", "load", "spark", "tailer"}),
        (["monitoring"], PRODUCT | {"prometheus", "grafana"}),
        (["derive"], PRODUCT | {"derive"}),
        (["demo", "derive", "monitoring"], set(SERVICES)),
    ],
)
def test_the_compose_file_is_valid_in_each_profile(profiles: list[str], services: set[str]) -> None:
    chosen = [part for profile in profiles for part in ("--profile", profile)]
    command = [*compose_command(), *chosen, "config", "--quiet"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    started = {
        name
        for name, service in SERVICES.items()
        if "profiles" not in service or set(service["profiles"]) & set(profiles)
    }
    assert started == services
    for name in services:
        needed = SERVICES[name].get("depends_on", ())
        assert set(needed) <= services, f"{name} cannot start without them"


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert sorted(int(port.split(":")[1]) for port in published) == [
        3000, 8080, 8081, 8082, 8083, 9090, 9094,
    ]  # fmt: skip


def test_each_long_running_container_has_a_health_check_or_one_of_its_image() -> None:
    for name, service in SERVICES.items():
        ends = name in ("load", "secret")
        of_image = name.startswith("backend-")  # HEALTHCHECK of docker/Dockerfile
        assert ends or of_image or "test" in service["healthcheck"], name


def test_the_services_use_another_kafka_and_other_views() -> None:
    environment = {
        **os.environ,
        "QUERYABLE_BOOTSTRAP_SERVERS": "k:1",
        "QUERYABLE_VIEWS": "./my.toml",
    }
    done = subprocess.run(
        [*compose_command(), "--profile", "derive", "config"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    for name in ("backend-2", "derive"):
        service = yaml.safe_load(done.stdout)["services"][name]
        assert service["environment"]["QUERYABLE_BOOTSTRAP_SERVERS"] == "k:1"
        assert any("my.toml" in str(mount) for mount in service["volumes"])
        assert not service.get("depends_on", {}).keys() & {"broker", "load"}


@pytest.mark.parametrize("name", SERVICES)
def test_each_container_has_few_rights_and_limits(name: str) -> None:
    service = SERVICES[name]
    assert str(service["user"]).partition(":")[0] not in ("0", "root")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["mem_limit"]
    assert service["pids_limit"] > 0
    assert {"max-size", "max-file"} <= service["logging"]["options"].keys()
    assert service.keys().isdisjoint({"privileged", "cap_add", "network_mode", "pid", "devices"})


@pytest.mark.parametrize("name", SERVICES)
def test_each_container_writes_only_to_its_volumes_and_to_bounded_memory(name: str) -> None:
    for mount in SERVICES[name].get("volumes", ()):
        source, _, mode = (
            mount.rsplit(":", 2) if mount.endswith(":ro") else (*mount.rsplit(":", 1), "rw")
        )
        assert mode == "ro" or source in COMPOSE["volumes"], mount
    for mount in SERVICES[name]["tmpfs"]:
        assert re.search(r":size=\d+m\b", mount), mount


@pytest.mark.parametrize("name", SERVICES)
def test_each_folder_in_memory_belongs_to_the_user_of_the_container(name: str) -> None:
    """runc 1.1 ignores the mode of a folder that is in the image."""
    uid, gid = re.fullmatch(r"(\d+):(\d+)", SERVICES[name]["user"]).groups()  # type: ignore[union-attr]
    for mount in SERVICES[name]["tmpfs"]:
        options = mount.partition(":")[2].split(",")
        assert {f"uid={uid}", f"gid={gid}"} <= set(options), mount
        assert "mode=" not in mount


def test_the_proxy_has_a_folder_for_each_path_that_nginx_writes_to() -> None:
    files = [REPOSITORY / "nginx.conf", *(REPOSITORY / "proxy").glob("*.conf")]
    configuration = "\n".join(path.read_text() for path in files)
    directives = r"^\s*(?:pid|error_log|access_log|\w+_temp_path) ([^\s;]+)"
    written = re.findall(directives, configuration, re.MULTILINE)
    assert len(written) == 10
    assert all(not path.startswith("/") for path in written), "below the prefix, /srv"
    assert [mount.partition(":")[0] for mount in SERVICES["proxy"]["tmpfs"]] == ["/tmp", "/srv"]
    assert "proxy-logs:/srv/logs" in SERVICES["proxy"]["volumes"]


def test_the_logs_of_the_proxy_are_rotated(tmp_path: Path) -> None:
    """With the program of the container, and a real nginx."""
    port, unused = ports.free_ports(2)
    logs = tmp_path / "logs"
    # no backend answers: its own pages are enough
    environment = {"QUERYABLE_BACKENDS": f"127.0.0.1:{unused}", "PATH": "/usr/bin:/bin"}
    # as in the container, where all processes have one user
    changes = {"pid logs": "user root; pid logs"} if os.getuid() == 0 else {}
    command = lay_out(tmp_path, port, changes=changes)
    nginx = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    script = str(REPOSITORY / "docker" / "rotate-logs")
    rotating = subprocess.Popen(["sh", script, str(logs), "500", "0.05"])
    old, new = logs / "access.log.1", logs / "access.log"

    def request(query: str) -> None:
        http.get(f"http://127.0.0.1:{port}/proxy/topology?{query}")

    def has_rotated() -> bool:
        request("to-fill-the-log")
        return old.exists() and new.exists()

    def writes_to_the_new_file() -> bool:
        request("after-the-rotation")
        return new.exists() and "after-the-rotation" in new.read_text()

    try:
        wait_until(has_rotated, 10, "the log to be rotated")
        rotating.terminate()
        rotating.wait()
        wait_until(writes_to_the_new_file, 10, "nginx to write to a new access.log")
        assert "to-fill-the-log" in old.read_text()
    finally:
        for process in (rotating, nginx):
            process.terminate()
            process.wait()


def test_the_images_can_copy_their_files() -> None:
    dockerfile = (REPOSITORY / "docker" / "Dockerfile").read_text()
    copied = {
        source
        for sources in re.findall(r"^COPY (?!--from=)(.+) \S+$", dockerfile, re.MULTILINE)
        for source in sources.split()
    }
    assert {"backend", "views.toml"} <= copied
    assert [source for source in copied if not (REPOSITORY / source).exists()] == []
    rules = (REPOSITORY / ".dockerignore").read_text().splitlines()
    included = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert copied - included == set(), ".dockerignore excludes these"


@pytest.mark.parametrize("stage", ["backend-packages", "spark-packages"])
def test_the_images_can_install_the_product(stage: str, tmp_path: Path) -> None:
    """From the files that the stage copies, without the others of the repository."""
    dockerfile = (REPOSITORY / "docker" / "Dockerfile").read_text()
    [steps] = re.findall(rf"^FROM packages AS {stage}\n(.*?)\n\n", dockerfile, re.M | re.S)
    for sources in re.findall(r"^COPY (.+) \S+$", steps, re.MULTILINE):
        for source in sources.split():
            path = REPOSITORY / source
            if path.is_dir():
                shutil.copytree(path, tmp_path / source)
            else:
                shutil.copy(path, tmp_path / source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.glob("queryable_topics-*.whl"))


def lists_of(name: str) -> dict[str, list[str]]:
    """The lists of a service that are on one line each, which is JSON."""
    text = (REPOSITORY / "docker-compose.yml").read_text().partition("\nservices:\n")[2]
    section = re.split(r"^  (?=\S)", text, flags=re.MULTILINE)
    own = next(each for each in section if each.startswith(f"{name}:"))  # then come volumes
    return {key: json.loads(value) for key, value in re.findall(r"(\w+): (\[.*\])", own)}


def test_a_secret_is_created_once(tmp_path: Path) -> None:
    """Runs the command of the service, on another folder."""
    (*shell, command) = lists_of("secret")["command"]
    contents = set()
    for _ in range(2):
        subprocess.run([*shell, command.replace("/data", str(tmp_path))], check=True)
        contents.add((tmp_path / "secret").read_bytes())
        ClusterSecret(tmp_path / "secret", "queryable-topics")
    assert len(contents) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    ("written", "is_healthy"),
    [
        ({"silent_for": 0, "state": "running"}, True),
        ({"silent_for": 0, "state": "starting"}, True),
        (None, False),
        ({"silent_for": 60, "state": "running"}, False),
        ({"silent_for": 0, "state": "failed"}, False),
    ],
)
def test_the_health_check_of_spark_detects_a_dead_or_failing_job(
    written: Any, is_healthy: bool, tmp_path: Path
) -> None:
    """Runs the command of the health check, on files of a job that works, has died, or fails."""
    spark = lists_of("spark")
    kind, python, *command = spark["test"]
    assert (kind, python) == ("CMD", "python")
    file = spark["command"][spark["command"].index("--health") + 1]
    assert file in command, "the check must read the file that the job writes"
    if written is not None:
        view = {"state": written["state"], "silent_seconds": 1.0, "error": None}
        document = {"at": time.time() - written["silent_for"], "views": {"word-count": view}}
        (tmp_path / "health.json").write_text(json.dumps(document))
    command[command.index(file)] = str(tmp_path / "health.json")
    done = subprocess.run(
        [sys.executable, *command], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) == is_healthy, done.stdout
