"""SQL statements, as the queries of whole views that answer them."""
