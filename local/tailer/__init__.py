"""Ships the proxy's access log to a topic: ``python -m local.tailer --help``."""
