"""Clients that are generated from /openapi.json: `make clients-test`."""
