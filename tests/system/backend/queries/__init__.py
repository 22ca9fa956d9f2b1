"""What a query means, on one instance and on several."""
