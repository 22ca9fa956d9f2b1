"""RocksDB and the data directory."""
