"""`queryable shell`: reads commands, completes them, and remembers them."""
