"""gunicorn for the application BENCH_APP: as for a backend, but for its worker, which reads."""

import os

from backend.gunicorn_conf import *  # noqa: F403

wsgi_app = os.environ["BENCH_APP"]
worker_class = "asgi"
