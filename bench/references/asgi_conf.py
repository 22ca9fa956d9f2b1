"""Configures gunicorn: a backend's settings, but gunicorn's own ASGI worker."""

from backend.gunicorn_conf import *  # noqa: F403

wsgi_app = "bench.references.constant:Constant()"
worker_class = "asgi"
asgi_loop = "uvloop"
asgi_lifespan = "on"
http_parser = "fast"
