"""The server in front of the application: gunicorn's worker and its fast path."""
