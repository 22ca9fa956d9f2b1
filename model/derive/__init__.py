"""The tables ``[views.NAME.derive]`` of views.toml: parsing and checking, without Spark.

``table`` parses a table to a ``Derivation``, ``expressions`` its expressions. Everything that Spark
will run is checked here: names, types, bounds. So no record can make a query fail later.
"""
