"""gunicorn for the constant application: all as for a backend, but for its worker, which reads."""

from backend.gunicorn_conf import *  # noqa: F403

wsgi_app = "bench.references.constant:create()"
worker_class = "asgi"
