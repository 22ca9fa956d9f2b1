"""The cluster: group membership (kafka-python), heartbeats, and calls to other instances.

`placement` decides who holds what, and is pure; `assignor` speaks Kafka's group protocol; `member`
is the thread. `peer_client` is the only module that opens a connection to another instance.
"""
