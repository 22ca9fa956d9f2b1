"""Tests of pushes in instances, without Kafka and Spark."""
