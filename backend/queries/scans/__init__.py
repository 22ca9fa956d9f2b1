"""Scans: this instance reads its own partitions, and gathers the rows of all other owners."""
