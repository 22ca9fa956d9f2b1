"""What an instance counts of its requests. Pure: no HTTP, no Kafka, no stores.

The event loop counts, and other threads read. A reader may see a request in one number and not yet
in another one.
"""
