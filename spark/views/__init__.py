"""One view a module: a function DataFrame ► DataFrame and its description, ``VIEW``.

A new module is found by itself. Its entry in views.toml makes backends serve the view's topic.
"""

from spark.discovery import views_of_package
from spark.view import View

VIEWS: dict[str, View] = views_of_package(__name__, __path__)
