"""What can be inferred about a topic from its configuration and a sample of its records.

`broker` reads both from Kafka, and `schema_sources` has the sources of schemas; the other modules
do no I/O. `adopt` and `check` use this package.
"""
