"""gunicorn's settings for a backend: `gunicorn -c python:backend.gunicorn_conf`.

There is one worker, because only one process can open a RocksDB directory. To scale, run one
instance per core. Invalid settings end the process with a message and exit code 2, most of them
before the fork. If it cannot start for another reason, such as a full disk, the code is 3.

The arbiter imports only what it needs: it would keep a copy of every page of memory to which the
worker writes. That is a third of the pages, because each object has a reference count.
"""

from __future__ import annotations

import gc
import mmap
import sys
from typing import Any

gc.disable()  # imports leave no garbage, and collections would take a tenth of their time

from backend.instance.constants import Constants
from backend.instance.settings import Settings, check_port, load_settings, read_views
from backend.security.audit import open_audit_log
from backend.security.client_claims import parse_networks
from backend.server.interface import Application as ServerApplication
from backend.server.interpreter import share_objects
from backend.server.memory import limit_arenas
from backend.server.open_files import connections_within, raise_limit
from backend.telemetry.logs import configure
from model.problems import ConfigurationError, TemporaryError


def _check_security(settings: Settings) -> None:
    # the libraries for keys and certificates are large: see above
    from backend.security.certificates import Certificates
    from backend.security.configuration import token_keys

    token_keys(settings)  # raises an error for invalid settings
    Certificates(settings)


def _prepare() -> Settings:
    settings = load_settings()
    read_views(settings.views)
    if any(name.startswith(("auth", "jwt_", "tls_")) for name in settings.model_fields_set):
        _check_security(settings)
    parse_networks(settings.trusted_proxies)
    check_port(settings)
    open_audit_log(settings.audit_log)
    return settings


_constants = Constants()

limit_arenas()
try:
    _settings = _prepare()
except ConfigurationError as _error:
    print(f"queryable backend: {_error}", file=sys.stderr)
    sys.exit(2)


_found_in_worker = mmap.mmap(-1, 1)  # shared with the worker: 1 if it has found a wrong setting


def _wrong_setting() -> None:
    """Called in the worker before it ends: gunicorn must end with status 2, too."""
    _found_in_worker[0] = 1


def _application() -> ServerApplication:
    """Called in the worker after the fork, because threads and RocksDB do not survive a fork."""
    gc.disable()
    from backend.instance.application import Application  # in the worker only: see above

    gc.enable()
    try:
        return Application(
            _settings, read_views(_settings.views), _constants, on_wrong_setting=_wrong_setting
        )
    except ConfigurationError as error:
        print(f"queryable backend: {error}", file=sys.stderr)
        _found_in_worker[0] = not isinstance(error, TemporaryError)
        sys.exit(3)  # with another status, gunicorn would start the next worker


# s between the arbiter's checks of its worker; a signal wakes the arbiter immediately
_CHECK_INTERVAL = 10.0


def when_ready(arbiter: Any) -> None:
    """gunicorn's hook: without it, the arbiter would check its worker each second. With this
    interval, it ends a worker that hangs after 60 to 70 s."""
    wait = arbiter.wait_for_signals
    arbiter.wait_for_signals = lambda timeout: wait(timeout=max(timeout, _CHECK_INTERVAL))


def on_exit(_arbiter: object) -> None:
    """gunicorn's hook. Without it, the arbiter would end with the worker's status."""
    if _found_in_worker[0]:
        sys.exit(2)


_instance = _settings.instance_id

wsgi_app = "backend.gunicorn_conf:_application()"
worker_class = "backend.server.worker.Worker"
workers = 1
worker_connections = connections_within(raise_limit(), 4096)
backlog = 4096
bind = f"{_settings.host}:{_settings.port}"
if _settings.tls_cert_file is not None:
    # for the log line with the address; the worker makes its own TLS context
    certfile, keyfile = str(_settings.tls_cert_file), str(_settings.tls_key_file)
keepalive = 75  # longer than the proxy keeps an idle connection, so that the proxy closes it first
graceful_timeout = 30
timeout = 60
limit_request_line = 32768
accesslog = None
errorlog = "-"
loglevel = "info"
control_socket_disable = True
proc_name = f"queryable-{_instance}"

if _settings.log_format == "json":
    logger_class = "backend.telemetry.json_logger.JsonLogger"
configure(_settings.log_format, _instance, _settings.request_log == "on")

share_objects()
