"""One view a file: a DataFrame -> DataFrame function and its description (a ``View``)."""

from spark.view import View
from spark.views import (
    airports,
    bytes_per_host,
    departures,
    latest_departure,
    requests_per_host,
    requests_per_minute,
    visits,
    word_count,
)

VIEWS: dict[str, View] = {
    view.name: view
    for view in (
        latest_departure.VIEW,
        word_count.VIEW,
        airports.VIEW,
        departures.VIEW,
        requests_per_host.VIEW,
        requests_per_minute.VIEW,
        bytes_per_host.VIEW,
        visits.VIEW,
    )
}
