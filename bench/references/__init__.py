"""References: minimal programs that do the same work as ours, each in its own process."""
