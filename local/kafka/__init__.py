"""Kafka on this machine: its jars and Java, a single-node broker, and topics; and the connection
settings for a Kafka of the user's own."""
