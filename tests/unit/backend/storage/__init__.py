"""Tests of RocksDB stores and of the data directory."""
