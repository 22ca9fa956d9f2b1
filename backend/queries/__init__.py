"""What a question means: points, batches, pages, counts, rankings, histories and changes.

A question is answered from this instance's store partitions and from those of other instances.
"""
