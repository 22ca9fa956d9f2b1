"""The deployment that the client's tests share."""

from tests.system.queryable.client.deployed import deployed

__all__ = ["deployed"]
