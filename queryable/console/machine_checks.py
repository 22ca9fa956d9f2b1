"""Whether the machine has what an instance needs: settings, folder, disk, port, nginx. Looks only:
nothing is made, not even a file to see whether that could be."""

from __future__ import annotations

import difflib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import urllib3
from pydantic import ValidationError

from backend.settings import Settings, check_port, problems_of
from backend.storage.ownership import FolderRefused, look
from backend.storage.recognition import is_store
from model.problems import ConfigurationError
from queryable.console.findings import Finding, ok, warning, wrong

_PREFIX = "QUERYABLE_"
_GB = 1e9
_LITTLE, _TOO_LITTLE = 5 * _GB, 0.1 * _GB
_PATIENCE = 2.0  # s


def settings_of(environment: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """What the environment says; the defaults of what is not right there."""
    found = list(_misspelt(environment))
    try:
        settings = Settings()
    except ValidationError as error:
        found.append(wrong("settings", problems_of(error), "correct these environment variables"))
        names = {str(name) for each in error.errors() for name in each["loc"]}
        return Settings(**{name: Settings.model_fields[name].default for name in names}), found
    if not found:
        given = sum(name.startswith(_PREFIX) for name in environment)
        found.append(ok("settings", f"{given} environment variables {_PREFIX}…"))
    return settings, found


def _misspelt(environment: Mapping[str, str]) -> Iterator[Finding]:
    known = [name.upper() for name in Settings.model_fields]
    for name in sorted(environment):
        short = name.removeprefix(_PREFIX)
        if short == name or short in known:
            continue
        if near := difflib.get_close_matches(short, known, 1, 0.85):
            yield warning(
                "settings", f"{name} is no setting of a backend", f"is {_PREFIX}{near[0]} meant?"
            )


def folder(path: Path, application: str) -> Iterator[Finding]:
    """Whether the application's stores can be kept there, and for how long."""
    about = f"data folder {path}"
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        yield wrong(about, f"{there} is no folder", "set QUERYABLE_DATA_DIR to a folder")
        return
    if not os.access(there, os.W_OK | os.X_OK):
        yield wrong(
            about, f"{there} is not writable for this user",
            "change its owner, or set QUERYABLE_DATA_DIR to another folder",
        )  # fmt: skip
        return
    if not path.exists():
        yield ok(about, f"can be made in {there}")
    else:
        try:
            look(path, application, is_store)
        except FolderRefused as refusal:
            yield wrong(about, refusal.says, refusal.do)
            return
        except OSError as error:
            do = "change its owner, or set QUERYABLE_DATA_DIR to another folder"
            yield wrong(about, f"it cannot be read: {error.strerror}", do)
            return
        yield ok(about, "writable")
    free = shutil.disk_usage(there).free
    says = f"{free / _GB:,.1f} GB are free"
    if free >= _LITTLE:
        yield ok(about, says)
        return
    judge = wrong if free < _TOO_LITTLE else warning
    yield judge(about, says, "make room, or set QUERYABLE_DATA_DIR to a folder on a larger disk")


def port(settings: Settings) -> Finding:
    """Whether an instance can listen, or does already."""
    about = f"port {settings.port}"
    try:
        check_port(settings)
    except ConfigurationError as error:
        if found := _instance_at(settings):
            return ok(about, f"instance {found} answers there")
        do = "stop who has it, or set QUERYABLE_HOST and QUERYABLE_PORT"
        return wrong(about, str(error).partition(": ")[2].partition(". ")[0], do)
    return ok(about, f"free on {settings.host}")


def _instance_at(settings: Settings) -> str | None:
    """The id of the instance that answers."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    try:
        with urllib3.PoolManager(timeout=_PATIENCE, retries=False) as pool:
            answer = pool.request("GET", f"http://{host}:{settings.port}/instance")
            return str(json.loads(answer.data)["id"])
    except (urllib3.exceptions.HTTPError, OSError, ValueError, KeyError, TypeError):
        return None


def nginx() -> Finding:
    """Whether the proxy could be started here."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    for name in ("nginx", "openresty"):
        if found := shutil.which(name, path=path):
            return ok("nginx", found)
    return warning(
        "nginx",
        "neither nginx nor openresty is on this machine",
        "install it where the proxy shall run (proxy/README.md)",
    )
