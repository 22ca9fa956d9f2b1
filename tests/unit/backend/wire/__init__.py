"""Tests of the byte formats between proxy and backends, and between backends."""
