"""What ours is measured beside: the least that anyone would need for the same, in a process."""
