"""The cluster: group membership (kafka-python), heartbeats, and requests to other instances.

`placement` assigns partitions to members, and is pure. `assignor` implements Kafka's group
protocol. `member` is the thread. Only `peer_client` connects to other instances.
"""
