"""Instances join, leave, take over partitions and fetch snapshots from each other."""
