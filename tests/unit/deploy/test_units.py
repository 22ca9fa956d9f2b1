"""systemd's units and logrotate's file, checked by systemd and logrotate."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from backend.instance.constants import Constants
from backend.instance.settings import Settings
from tests.support.prometheus.promql import DEPLOY

ROOT = DEPLOY.parent
UNITS = sorted((DEPLOY / "systemd").iterdir())


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_each_unit(unit: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    # the programs are not installed here, and nothing else may be wrong
    complaints = [
        line
        for line in (done.stdout + done.stderr).splitlines()
        if not re.search(r"Command /(opt|usr)/\S+ is not executable", line)
    ]
    assert complaints == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_services_restart_within_limits_of_memory(unit: Path) -> None:
    text = unit.read_text()
    if unit.suffix != ".service" or "Type=oneshot" in text:
        return
    for line in ("Restart=always", "StartLimitIntervalSec=0", "NoNewPrivileges=yes"):
        assert line in text
    assert re.search(r"^MemoryMax=\d+[GM]$", text, re.M)
    known = {f"QUERYABLE_{name.upper()}" for name in Settings.model_fields}
    known |= {"QUERYABLE_BACKENDS", "QUERYABLE_CACHE"}
    assert set(re.findall(r"QUERYABLE_[A-Z_]+", text)) <= known


def test_a_stop_waits_longer_than_a_drain() -> None:
    drain = Constants().drain_time
    [seconds] = re.findall(
        r"^TimeoutStopSec=(\d+)$", (DEPLOY / "systemd/queryable-backend@.service").read_text(), re.M
    )
    assert int(seconds) > drain + 30  # graceful_timeout of backend/gunicorn_conf.py


def test_nginx_accepts_the_folder_of_the_documented_commands(tmp_path: Path) -> None:
    prefix = "/var/lib/queryable-proxy"
    text = (ROOT / "docs" / "installation.md").read_text().partition("### Three machines")[0]
    commands = [
        line.replace(prefix, str(tmp_path)).replace("-o queryable -g queryable", "")
        for block in re.findall(r"```sh\n(.*?)```", text, re.S)
        for line in block.splitlines()
        if prefix in line
    ]
    assert len(commands) > 3
    subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=ROOT, check=True)
    unit = (DEPLOY / "systemd/queryable-proxy.service").read_text()
    [start] = re.findall(r"^ExecStart=(.+)$", unit, re.M)
    # a worker has the user of the unit
    user = ["-g", "user root;"] if os.getuid() == 0 else []
    done = subprocess.run(
        [*shlex.split(start.replace(prefix, str(tmp_path))), *user, "-t"],
        env={**os.environ, "QUERYABLE_BACKENDS": "127.0.0.1:8081"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
