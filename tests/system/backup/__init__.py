"""Backup and restore, as docs/operations.md describes them."""
