"""The deployment that most client tests share."""

from tests.system.queryable.client.deployed import deployed

__all__ = ["deployed"]
