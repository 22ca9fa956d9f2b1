"""`queryable check`: check settings, views file, broker, topics and machine."""
