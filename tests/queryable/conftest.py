"""The deployment that the client's tests share."""

from tests.queryable.client.deployed import deployed

__all__ = ["deployed"]
