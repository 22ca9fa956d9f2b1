"""gunicorn for the constant application: worker, loop, parser and all just as for a backend."""

from backend.gunicorn_conf import *  # noqa: F403

wsgi_app = "bench.references.constant:create()"
