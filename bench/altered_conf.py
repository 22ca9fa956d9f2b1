"""gunicorn's settings for a backend with other constants, for measurements and tests.

The variable ALTERED_CONSTANTS has them: a JSON object with fields of `Constants`. All other
settings are those of `backend.gunicorn_conf`, which does not know this module.
"""

import json
import os
from dataclasses import replace

from backend import gunicorn_conf
from backend.gunicorn_conf import *  # noqa: F403

gunicorn_conf._constants = replace(
    gunicorn_conf._constants, **json.loads(os.environ["ALTERED_CONSTANTS"])
)
