"""Avro: bare, or framed as Confluent's serializers do."""
