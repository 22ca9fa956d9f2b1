"""The deployment that the tests of the command-line tool share."""

from tests.queryable.cli.deployed import deployed

__all__ = ["deployed"]
