"""Queries of a whole view: each instance reduces its partitions, and one instance merges."""
