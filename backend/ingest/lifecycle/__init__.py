"""The lifecycle of assigned store partitions: fetch a snapshot, open, rebuild, close, clean up."""
