"""Configures gunicorn for BENCH_APP: a backend's settings, but gunicorn's own ASGI worker."""

import os

from backend.gunicorn_conf import *  # noqa: F403

wsgi_app = os.environ["BENCH_APP"]
worker_class = "asgi"
asgi_loop = "uvloop"
asgi_lifespan = "on"
http_parser = "fast"
