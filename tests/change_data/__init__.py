"""Change data capture with PostgreSQL, Debezium and Kafka Connect: `make cdc-test`."""
