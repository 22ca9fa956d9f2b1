"""From the assignment to open store partitions: open, copy, rebuild, close, clean up."""
