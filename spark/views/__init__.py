"""One view a file: a DataFrame -> DataFrame function and its description (a ``View``)."""

from spark.view import View
from spark.views import latest_departure, word_count

VIEWS: dict[str, View] = {view.name: view for view in (latest_departure.VIEW, word_count.VIEW)}
