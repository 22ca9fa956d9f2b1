"""What backend, client, Spark and the local stack agree on: views, keys, partitions, the topology.

Nothing here does I/O, starts a thread, reads a clock or keeps a global that changes.
"""
