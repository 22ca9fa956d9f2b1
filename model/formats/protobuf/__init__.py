"""Protocol Buffers: bare messages, or framed as Confluent's serializers do."""
