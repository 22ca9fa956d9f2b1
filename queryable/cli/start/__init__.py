"""`queryable init` and `serve`: starting with one's own Kafka."""
