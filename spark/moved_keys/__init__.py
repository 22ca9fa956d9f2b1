"""Keys with records in several partitions of a raw topic: they move if partitions are added.

Nothing orders the records of two partitions but their timestamps. Rule: of such a key, the newest
record counts, by its timestamp. The records of one partition keep their order.
"""
