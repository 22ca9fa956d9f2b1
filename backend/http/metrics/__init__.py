"""GET /metrics: collected on request, from numbers that the instance counts anyway.

A collector is a function from a part of the instance to families. Names, units and label values
follow Prometheus' conventions (https://prometheus.io/docs/practices/naming/), which a test checks.
"""
