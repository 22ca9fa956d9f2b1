"""One module per view: a function DataFrame ► DataFrame, and its description ``VIEW``.

New modules are discovered. Backends serve the view's topic if views.toml has an entry for it.
"""

from spark.discovery import views_of_package
from spark.view import View

VIEWS: dict[str, View] = views_of_package(__name__, __path__)
