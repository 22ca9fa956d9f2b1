"""Keys with records in several partitions of a raw topic: they move if partitions are added.

Only their timestamps order the records of two partitions. Rule: for such a key, the record with the
newest timestamp counts. The records of one partition keep their order.
"""
