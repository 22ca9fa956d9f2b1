"""The HTTP/1.1 server of a backend: a gunicorn worker, its connections, memory settings.

gunicorn's arbiter starts and supervises the process. A connection answers plain point reads when
their bytes arrive, and runs the ASGI application for all other requests. Only public names of
gunicorn and of its parser are used. tests/unit/backend/server/test_contract.py lists them.
"""
