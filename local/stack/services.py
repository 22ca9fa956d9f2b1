"""The command lines and environments of the stack's processes."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path

from local import ports
from local.errors import LocalError
from local.kafka.jars import spark_jars
from local.settings import StackSettings
from local.spark_views import DerivedView

BACKEND = [sys.executable, "-m", "gunicorn", "-c", "python:backend.gunicorn_conf"]

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""For the environment of backends: the C library asks for huge pages (docs/sizing.md)."""


def cluster_secret(settings: StackSettings) -> Path:
    """The file with the secret of backends and nginx: the user's, else one of the stack."""
    if settings.cluster_secret_file:
        return Path(settings.cluster_secret_file).absolute()
    return settings.run_dir.absolute() / "cluster-secret"


def create_cluster_secret(settings: StackSettings) -> None:
    """Writes a new secret, if there is none. Raises ``LocalError``."""
    path = cluster_secret(settings)
    if settings.cluster_secret_file or path.exists():
        return
    new = path.with_suffix(".new")
    try:
        new.unlink(missing_ok=True)
        new.touch(0o600, exist_ok=False)
        new.write_text(secrets.token_hex(32) + "\n")
        new.rename(path)
    except OSError as error:
        raise LocalError(f"cannot write the cluster secret {path}: {error.strerror}.") from error


def backend_environment(settings: StackSettings, number: int, port: int) -> dict[str, str]:
    """The environment of backend ``number``, counted from 1."""
    return {
        **{name: os.environ.get(name, value) for name, value in HUGE_PAGES.items()},
        "QUERYABLE_BOOTSTRAP_SERVERS": settings.servers,
        "QUERYABLE_APPLICATION_ID": settings.application_id,
        "QUERYABLE_INSTANCE_ID": f"b{number}",
        "QUERYABLE_HOST": ports.LOOPBACK,
        "QUERYABLE_PORT": str(port),
        "QUERYABLE_DATA_DIR": str(settings.state_dir / "backends" / f"b{number}"),
        "QUERYABLE_VIEWS": str(settings.views.absolute()),
        "QUERYABLE_CLUSTER_SECRET_FILE": str(cluster_secret(settings)),
    }


def proxy_environment(settings: StackSettings) -> dict[str, str]:
    backends = [f"{ports.LOOPBACK}:{port}" for port in settings.backend_ports]
    return {
        "QUERYABLE_BACKENDS": ",".join(backends),
        "QUERYABLE_CLUSTER_SECRET_FILE": str(cluster_secret(settings)),
    }


def spark_command(
    settings: StackSettings, views: Iterable[DerivedView], progress: Path
) -> list[str]:
    return [
        *(sys.executable, "-m", "spark.run"),
        *dict.fromkeys(view.argument for view in views),
        *("--bootstrap-servers", settings.servers),
        *("--checkpoint-dir", str(settings.state_dir / "checkpoints")),
        *("--progress", str(progress)),
        *("--jars", str(spark_jars()[0].parent)),
        *("--topics-deadline", "120"),
        *([] if settings.create_topics else ["--no-create-topics"]),
        *("--views-toml", str(settings.views.absolute())),
    ]


def tailer_command(settings: StackSettings, log: Path) -> list[str]:
    command = [
        *(sys.executable, "-m", "local.tailer"),
        *("--log", str(log)),
        *("--position", str(settings.state_dir / "weblog-position.json")),
        *("--bootstrap-servers", settings.servers),
    ]
    if settings.bootstrap_servers:  # the [kafka] table is for the user's own Kafka
        command += ["--views-toml", str(settings.views.absolute())]
    return command
