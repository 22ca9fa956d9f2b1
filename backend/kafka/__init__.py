"""Clients of Kafka: their settings, tokens and results."""
