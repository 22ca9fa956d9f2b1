"""Views that ``[views.NAME.derive]`` of views.toml describes.

``model.derive`` has checked the description; here it becomes a plan of Spark's own operators. Only
sessions and the decoding of JSON run Python. Rule: no record may make a query fail.
"""
