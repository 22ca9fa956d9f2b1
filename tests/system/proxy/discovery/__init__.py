"""Tests of how nginx learns the topology, and which deployment is current."""
