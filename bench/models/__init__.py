"""What larger deployments cost, computed from the rows of one run."""
