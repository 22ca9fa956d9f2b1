"""`queryable adopt`: propose views for the stores of a Kafka Streams application."""
