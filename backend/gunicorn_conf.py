"""How gunicorn runs a backend: `gunicorn -c python:backend.gunicorn_conf`.

One worker: a RocksDB directory opens once. The unit of scale is an instance per core. What cannot
work is refused here, before a process is forked, with one message and exit code 2.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from backend.allocator import bound_arenas
from backend.app import Application
from backend.settings import Settings, check_port, load_settings, read_views
from model.problems import ConfigurationError


def _prepare() -> Settings:
    settings = load_settings()
    read_views(settings.views)
    check_port(settings)
    return settings


bound_arenas()
try:
    _settings = _prepare()
except ConfigurationError as _error:
    print(f"queryable backend: {_error}", file=sys.stderr)
    sys.exit(2)


def _application() -> Any:
    """Called in the worker, after the fork: threads and RocksDB do not survive one."""
    try:
        return Application(_settings, read_views(_settings.views))
    except ConfigurationError as error:
        print(f"queryable backend: {error}", file=sys.stderr)
        sys.exit(3)


_instance = _settings.instance_id

wsgi_app = "backend.gunicorn_conf:_application()"
worker_class = "backend.worker.Worker"
workers = 1
worker_connections = 4096
backlog = 4096
bind = f"{_settings.host}:{_settings.port}"
asgi_loop = "uvloop"
asgi_lifespan = "on"
http_parser = "fast"
keepalive = 75  # longer than the proxy keeps an idle connection, so that it closes first
graceful_timeout = 30
timeout = 60
limit_request_line = 32768
accesslog = None
errorlog = "-"
loglevel = "info"
control_socket_disable = True
proc_name = f"queryable-{_instance}"

# Not by gunicorn's logconfig: any of its kinds makes it build an access-log line for each request.
logging.basicConfig(
    format=f"%(asctime)s {_instance} %(levelname)s %(name)s %(message)s", level=logging.WARNING
)
logging.getLogger("backend").setLevel(logging.INFO)
# kafka-python logs every failed connection with its stack; the member thread says it in one line
logging.getLogger("kafka").setLevel(logging.CRITICAL)
