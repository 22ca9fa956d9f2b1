"""Commands for starting with one's own Kafka: `init` and `serve`."""
