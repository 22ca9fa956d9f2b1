"""Tests that share a Spark session. Two of the processes of `make test` run them."""
