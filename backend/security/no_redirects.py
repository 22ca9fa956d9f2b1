"""HTTP without redirects: a request with credentials, or one for keys, must not reach another
server."""

from __future__ import annotations

import urllib.request
from typing import Any


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """For `build_opener`: a redirect is an error with its status."""

    def redirect_request(self, *_: Any) -> None:
        return None
