"""Tests that start processes: brokers, instances, nginx, browsers, Spark jobs. They mostly wait."""
