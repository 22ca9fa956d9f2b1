"""The Flask application of an instance without its threads."""

from __future__ import annotations

from flask import Flask

from backend.http.flask_app import create_flask_app
from backend.http.kiqr.raw_reads import RawReads
from backend.instance.context import InstanceContext


def flask_pages(context: InstanceContext) -> Flask:
    """All pages; those of KIQR's dialect can be asked only after `RawReads.start`."""
    return create_flask_app(context, RawReads(context))
