"""systemd's units and logrotate's file, checked by systemd and logrotate."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.support.prometheus.promql import DEPLOY


def test_logrotate_rotates_the_logs_of_a_running_nginx(tmp_path: Path) -> None:
    logrotate = shutil.which("logrotate", path=os.environ["PATH"] + ":/usr/sbin")
    if logrotate is None:
        pytest.skip("logrotate is not there: make setup")
    # as in the unit, all processes have one user
    user = {"worker_shutdown_timeout 10s;": "worker_shutdown_timeout 10s; user root;"}
    changes = user if os.getuid() == 0 else None
    with Nginx(tmp_path / "prefix", "127.0.0.1:1", changes=changes) as nginx:
        logs = tmp_path / "prefix" / "logs"
        text = (DEPLOY / "logrotate" / "queryable-proxy").read_text()
        text = text.replace("/var/lib/queryable-proxy/logs", str(logs))
        text = re.sub(r"^ +su .*\n", "", text, flags=re.M)
        (tmp_path / "rotate").write_text(text)
        (tmp_path / "rotate").chmod(0o644)

        def logged(query: str, file: Path) -> bool:
            with nginx.client() as client:
                client.get(f"/proxy/health?{query}")
            return file.exists() and query in file.read_text()

        access = logs / "access.log"
        wait_until(lambda: logged("before", access), 5, "a line")
        logs.chmod(0o755)
        done = subprocess.run(
            [logrotate, "--force", "--state", str(tmp_path / "state"), str(tmp_path / "rotate")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        wait_until(lambda: logged("after", access), 5, "nginx to write to the new file")
        assert "before" in (logs / "access.log.1").read_text()
        assert "before" not in access.read_text()
