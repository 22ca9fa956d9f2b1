"""Checks what an instance needs on this machine: settings, data folder, disk, port, nginx.

The checks change nothing: they create no file to test whether the folder is writable.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from backend.instance.gone_settings import gone_settings
from backend.instance.settings import Settings, problems_of
from backend.instance.settings import check_port as ensure_port_is_free
from backend.security.certificates import Certificates
from backend.storage.ownership import FolderRefused, inspect
from backend.storage.recognition import is_store
from model.http.answers import RequestFailed
from model.http.requests import send
from model.problems import ConfigurationError
from queryable.cli.check.findings import Finding, counted, ok, warning, wrong
from queryable.client.tls import client_tls

_PREFIX = "QUERYABLE_"
_GB = 1e9
_LOW_SPACE, _NO_SPACE = 5 * _GB, 0.1 * _GB
_TIMEOUT = 2.0  # s
_MAX_ANSWER_BYTES = 8 << 20
_DAY = 86_400.0  # s
_RENEW_BEFORE = 14 * _DAY


def read_settings(environment: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """The settings, with the defaults instead of invalid ones."""
    findings = list(_check_names(environment))
    findings += [
        wrong("settings", f"{name} is no longer a setting", action)
        for name, action in gone_settings(environment).items()
    ]
    try:
        settings = Settings()
    except ValidationError as error:
        findings.append(
            wrong("settings", problems_of(error), "correct these environment variables")
        )
        names = {str(name) for problem in error.errors() for name in problem["loc"]}
        return Settings(**{name: Settings.model_fields[name].default for name in names}), findings
    if not findings:
        count = sum(name.startswith(_PREFIX) for name in environment)
        findings.append(ok("settings", f"{counted(count, 'environment variable')} {_PREFIX}…"))
    return settings, findings


def _check_names(environment: Mapping[str, str]) -> Iterator[Finding]:
    known = [name.upper() for name in Settings.model_fields]
    for name in sorted(environment):
        short = name.removeprefix(_PREFIX)
        if short == name or short in known:
            continue
        if similar := difflib.get_close_matches(short, known, 1, 0.85):
            yield warning(
                "settings", f"unknown setting {name}", f"did you mean {_PREFIX}{similar[0]}?"
            )


def check_data_folder(path: Path, application: str) -> Iterator[Finding]:
    """Whether the application can keep its stores there, and how much space is left."""
    subject = f"data folder {path}"
    existing = path.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        yield wrong(subject, f"{existing} is not a folder", "set QUERYABLE_DATA_DIR to a folder")
        return
    if not os.access(existing, os.W_OK | os.X_OK):
        yield wrong(
            subject, f"{existing} is not writable for this user",
            "change its owner, or set QUERYABLE_DATA_DIR to another folder",
        )  # fmt: skip
        return
    if not path.exists():
        yield ok(subject, f"can be created in {existing}")
    else:
        try:
            inspect(path, application, is_store)
        except FolderRefused as refusal:
            yield wrong(subject, refusal.problem, refusal.remedy)
            return
        except OSError as error:
            action = "change its owner, or set QUERYABLE_DATA_DIR to another folder"
            yield wrong(subject, f"not readable: {error.strerror}", action)
            return
        yield ok(subject, "writable")
    free = shutil.disk_usage(existing).free
    text = f"{free / _GB:,.1f} GB are free"
    if free >= _LOW_SPACE:
        yield ok(subject, text)
        return
    finding = wrong if free < _NO_SPACE else warning
    action = "free some space, or set QUERYABLE_DATA_DIR to a folder on a larger disk"
    yield finding(subject, text, action)


def check_tls(settings: Settings, now: float) -> Iterator[Finding]:
    """Whether the TLS files can be used, and for how long. `now`: Unix time (s)."""
    try:
        certificates = Certificates(settings)
    except ConfigurationError as error:
        yield wrong("TLS", str(error), "correct the settings QUERYABLE_TLS_… or their files")
        return
    if certificates.expires_at is None:
        return
    subject = f"certificate {settings.tls_cert_file}"
    days = (certificates.expires_at - now) / _DAY
    if days <= 0:
        yield wrong(subject, f"it expired {-days:,.1f} days ago", "renew it")
    elif days * _DAY < _RENEW_BEFORE:
        yield warning(subject, f"it expires in {days:,.1f} days", "renew it")
    else:
        yield ok(subject, f"valid for {days:,.0f} days")


def check_port(settings: Settings) -> Finding:
    """Whether an instance can listen, or already listens."""
    subject = f"port {settings.port}"
    try:
        ensure_port_is_free(settings)
    except ConfigurationError as error:
        if instance := _instance_at(settings):
            return ok(subject, f"{instance} listens there")
        action = "stop the process that listens there, or set QUERYABLE_HOST and QUERYABLE_PORT"
        return wrong(subject, str(error).partition(": ")[2].partition(". ")[0], action)
    return ok(subject, f"free on {settings.host}")


def _instance_at(settings: Settings) -> str | None:
    """The instance that listens there; None if no instance does."""
    try:
        scheme = "http" if settings.tls_cert_file is None else "https"
        # what listens on this machine's port is asked for its name, and gets nothing secret
        url = f"{scheme}://{settings.host}:{settings.port}/instance"
        answer = send(url, _TIMEOUT, _MAX_ANSWER_BYTES, tls=client_tls(None, verify=False))
        if answer.status == 401 and "Topology-Epoch" in answer.headers:
            return "an instance that needs a token"
        return f"instance {json.loads(answer.body)['id']}"
    except (RequestFailed, ValueError, KeyError, TypeError):
        return None


def check_nginx() -> Finding:
    """Whether the proxy can be started on this machine."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    for name in ("nginx", "openresty"):
        if program := shutil.which(name, path=path):
            return ok("nginx", program)
    return warning(
        "nginx",
        "neither nginx nor openresty is on this machine",
        "install it on the machine of the proxy (proxy/README.md); `queryable serve` does without",
    )
