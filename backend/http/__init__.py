"""HTTP: parses requests, chooses the route, writes responses.

`router` (ASGI) has the hot routes; `flask_app` (Flask, through a2wsgi) the rest. What a question
means is decided in `backend.queries`.
"""
