"""Who sends a request, and what that allows.

`tokens` verifies JSON Web Tokens of clients, `keys` has the keys for that, `cluster` authenticates
instances and proxies of the same deployment. What a route needs is in the route table
(`backend/http/route_table.py`), and is checked in one place (`backend/http/access.py`).
"""
