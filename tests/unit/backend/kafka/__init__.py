"""Tests of the clients of Kafka."""
