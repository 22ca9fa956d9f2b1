"""Rows as Arrow record batches (the Arrow columnar format, its IPC streaming format)."""
