"""What the project's different Kafka clients need in common: the settings of a connection, and the
headers of records."""
