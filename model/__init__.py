"""The definitions that backend, client, Spark and the local stack share: views, keys, partitions,
the topology.

This package does no I/O, starts no threads, reads no clock, and has no mutable globals. The
exceptions are `model.machine`, which reads the limits of the process, and `model.http`, which sends
requests.
"""
