"""Tests of the definitions that backend, client, Spark and the local stack share."""
