"""Compares a real Kafka Streams application with backends that serve its changelogs."""
