"""What larger deployments cost, and how costs grow, computed from the rows of one run."""
