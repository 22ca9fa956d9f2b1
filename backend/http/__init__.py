"""HTTP: parses requests, chooses the route, writes responses.

`router` (ASGI) has the hot routes, `flask_app` (Flask, through a2wsgi) all others. The meaning of
queries is in `backend.queries`.
"""
