import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from backend.security.cluster_secret import ClusterSecret
from local.settings import REPOSITORY


def compose() -> list[str]:
    """The command: Docker's plugin if it is installed, otherwise Debian's program."""
    plugin = ["docker", "compose"]
    try:
        subprocess.run([*plugin, "version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return ["docker-compose"]
    return plugin


def test_the_compose_file_is_valid_and_publishes_on_loopback_only() -> None:
    done = subprocess.run(
        [*compose(), "config"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    text = (REPOSITORY / "docker-compose.yml").read_text()
    published = re.findall(r'ports:\n\s+- "([^"]+)"', text)
    assert published == ["127.0.0.1:9094:9094", "127.0.0.1:8080:8080"]


def test_the_images_can_copy_their_files() -> None:
    dockerfile = (REPOSITORY / "docker" / "Dockerfile").read_text()
    copied = {
        source
        for sources in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE)
        for source in sources.split()
    }
    assert {"backend", "views.toml"} <= copied
    assert [source for source in copied if not (REPOSITORY / source).exists()] == []
    rules = (REPOSITORY / ".dockerignore").read_text().splitlines()
    included = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert copied - included == set(), ".dockerignore excludes these"


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
