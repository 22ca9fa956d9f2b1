"""Evaluates ``[views.NAME.derive]`` on records in memory, as the Spark job does with a topic.

Pure: no Kafka, no Spark, no clock. ``evaluate.evaluate`` is the function to call.
"""
