"""From records to stored entries."""
