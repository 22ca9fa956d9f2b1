"""The jobs that derive views, and the state of Spark."""
