"""Secondary indexes of store partitions: their keys are written with the entries, built for entries
that were there before, and swept of what updates leave."""
