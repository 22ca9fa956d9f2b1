"""proxy/start, by which compose, Kubernetes, systemd and the local stack start nginx."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from local.settings import REPOSITORY
from local.stack.nginx import lay_out
from tests.support.nginx import Nginx
from tests.support.prometheus.promql import DEPLOY

START = REPOSITORY / "proxy" / "start"
MIB = 1 << 20


def started(cgroups: Path, *options: str, conf: Path = Path("nginx.conf")) -> str:
    """The directives that nginx gets with its configuration. `options`: of proxy/start."""
    done = subprocess.run(
        ["/bin/sh", str(START), *options, "/bin/sh", "-c", 'echo "$4"', "nginx", "-c", str(conf)],
        env={**os.environ, "CGROUPS": str(cgroups)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("files", "cpus", "workers"),
    [
        ({}, 1, 2),
        ({}, 64, 64),
        ({"cpu.max": "max 100000", "memory.max": "max"}, 64, 64),
        ({"cpu.max": "400000 100000"}, 64, 4),
        ({"cpu.max": "50000 100000"}, 64, 2),
        ({"cpu.max": "400000 100000"}, 3, 3),
        ({"memory.max": str(512 * MIB)}, 64, 8),
        ({"memory.max": str(32 * MIB)}, 64, 2),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64, 64),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 64, 3),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, 64, 64),
    ],
)
def test_the_workers_follow_the_limits_of_the_container(
    files: dict[str, str], cpus: int, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / "cgroups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroups" / name).write_text(text + "\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nproc").write_text(f"#!/bin/sh\necho {cpus}\n")
    (tmp_path / "bin" / "nproc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    directives = started(tmp_path / "cgroups")
    assert directives == f"daemon off; worker_processes {workers};"


def test_a_real_nginx_has_these_workers_and_all_files_of_the_hard_limit(tmp_path: Path) -> None:
    (tmp_path / "cgroups").mkdir()
    (tmp_path / "cgroups" / "cpu.max").write_text("300000 100000\n")
    command = [
        "sh", "-c", "ulimit -Sn 256; ulimit -Hn 5000; exec \"$@\"", "sh",
    ]  # fmt: skip
    environment = {"CGROUPS": str(tmp_path / "cgroups")}
    nginx = Nginx(tmp_path / "prefix", "127.0.0.1:1", environment=environment, starter=command)
    with nginx:
        children = Path(f"/proc/{nginx.process.pid}/task/{nginx.process.pid}/children")
        workers = children.read_text().split()
        assert len(workers) == min(3, max(2, os.cpu_count() or 2))
        for pid in workers:
            limits = Path(f"/proc/{pid}/limits").read_text()
            assert re.search(r"Max open files +5000 +5000 ", limits), limits


def test_the_number_of_workers_can_be_given(tmp_path: Path) -> None:
    assert started(tmp_path, "-w", "1") == "daemon off; worker_processes 1;"
    assert started(tmp_path, "-w", "70") == "daemon off; worker_processes 70;"


def test_without_the_programs_of_linux_the_workers_follow_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS has no nproc, and its getconf says the number of processors."""
    (tmp_path / "bin").mkdir()
    for name in ("cat", "grep", "rm", "sed", "tr"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    (tmp_path / "bin" / "getconf").write_text('#!/bin/sh\n[ "$1" = _NPROCESSORS_ONLN ] && echo 5\n')
    (tmp_path / "bin" / "getconf").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert started(tmp_path) == "daemon off; worker_processes 5;"


def test_a_copy_of_an_earlier_configuration_decides_itself(tmp_path: Path) -> None:
    """nginx would not start with two numbers of workers."""
    earlier, new = tmp_path / "earlier.conf", tmp_path / "new.conf"
    earlier.write_text("include x;\nworker_processes auto;\n")
    new.write_text("# proxy/start sets worker_processes.\n")
    numbers = {path: "worker_processes" in started(tmp_path, conf=path) for path in (earlier, new)}
    assert numbers == {earlier: False, new: True}


def test_compose_kubernetes_systemd_and_the_local_stack_start_nginx_by_it(tmp_path: Path) -> None:
    compose = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
    manifests = yaml.safe_load_all((DEPLOY / "kubernetes" / "proxy.yaml").read_text())
    [pod] = [each["spec"]["template"]["spec"] for each in manifests if each["kind"] == "Deployment"]
    unit = (DEPLOY / "systemd" / "queryable-proxy.service").read_text()
    [start] = re.findall(r"(?m)^ExecStart=(.*)$", unit)
    for command in (
        compose["services"]["proxy"]["command"][-1],
        pod["containers"][0]["command"][-1],
        start,
        " ".join(lay_out(tmp_path, 9)),
    ):
        assert re.search(r"\bsh /\S+/proxy/start \S*(nginx|openresty) -e ", command), command
        assert "daemon off" not in command, "nginx takes the last -g only"
    assert "worker_processes " not in re.sub("#.*", "", (REPOSITORY / "nginx.conf").read_text())
