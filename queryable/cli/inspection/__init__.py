"""What can be inferred about a topic from its configuration and a sample of its records.

`broker` reads both from Kafka; everything else is without I/O. `adopt` and `check` use it.
"""
