"""The deployment that the console's tests share."""

from tests.queryable.console.deployed import deployed

__all__ = ["deployed"]
