"""The deployment that most client tests share."""

from tests.queryable.client.deployed import deployed

__all__ = ["deployed"]
