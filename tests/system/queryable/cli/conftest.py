"""The deployment that the tests of the command-line tool share."""

from tests.system.queryable.cli.deployed import deployed

__all__ = ["deployed"]
