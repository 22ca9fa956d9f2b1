"""Definitions that the project's different Kafka clients share: the settings of a connection,
requests to brokers, and the headers of records."""
