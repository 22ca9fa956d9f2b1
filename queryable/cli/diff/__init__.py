"""`queryable diff`: compare a view of two deployments."""
