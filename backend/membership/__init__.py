"""Who holds what: the control plane (kafka-python).

One consumer an instance in the deployment's group, which fetches nothing. `placement` decides, and
is pure; `assignor` speaks Kafka's group protocol; `member` is the thread.
"""
