"""The HTTP/1.1 server of a backend: a gunicorn worker, its connections, memory settings.

gunicorn's arbiter starts and watches the process; a connection answers plain point reads as their
bytes arrive and runs the ASGI application for all other requests. Only public names of gunicorn
and of its parser are used: tests/backend/server/test_contract.py lists them.
"""
