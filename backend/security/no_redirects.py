"""For HTTP requests that must not reach another server, with credentials or for keys."""

from __future__ import annotations

import urllib.request
from typing import Any


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """For `build_opener`: a redirect is an error with its status."""

    def redirect_request(self, *_: Any) -> None:
        return None
