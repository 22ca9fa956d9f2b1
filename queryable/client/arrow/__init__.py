"""Views as Arrow datasets: `pip install '.[frames]'` in a checkout."""
