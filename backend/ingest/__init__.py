"""The data plane (confluent-kafka): applies the records of topics to store partitions.

One consumer with a manual assignment reads from the stored positions. `protocols` declares the
interface of a store; `backend.storage` implements it.
"""
