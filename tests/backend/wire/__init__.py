"""Bytes between the proxy and backends, and between backends."""
