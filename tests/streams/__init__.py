"""A real Kafka Streams application beside backends that serve its changelogs: same answers."""
