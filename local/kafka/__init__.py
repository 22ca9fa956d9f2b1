"""Kafka on this machine: its jars and Java, a single-node broker, and topics. Also the connection
settings for the user's own Kafka."""
