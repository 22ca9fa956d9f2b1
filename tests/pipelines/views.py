"""The views that are compared with batch jobs: those of the demo, and those of ``views.toml``."""

from __future__ import annotations

from pathlib import Path

from model.views_file import parse_views
from spark import views
from spark.derive.views import derived_view
from spark.view import View

VIEWS_TOML = Path(__file__).with_name("views.toml")


def _derived() -> dict[str, View]:
    made = map(derived_view, parse_views(VIEWS_TOML.read_text(), VIEWS_TOML.name).views)
    return {view.name: view for view in made if view is not None}


VIEWS = views.VIEWS | _derived()
