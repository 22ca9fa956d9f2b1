"""Scans of partitions: what this instance reads of its own, and what it gathers from all owners."""
