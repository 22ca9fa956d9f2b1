"""The gunicorn worker and its memory."""
