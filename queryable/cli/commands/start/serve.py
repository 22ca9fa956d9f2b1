"""`queryable serve`: backends, nginx and Spark for the views of a file, on this machine."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from model.machine.extras import how_to_install
from queryable.cli.check.target import SERVED
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import UNAVAILABLE, print_stderr
from queryable.cli.optional_dependencies import server_extra
from queryable.cli.options import Brokers
from queryable.client.protocol.errors import BadUse

DATA_DIR = SERVED.parent


@command
def serve(
    *,
    views: Annotated[Path, typer.Argument(metavar="VIEWS", help="The views file.")] = Path(
        "views.toml"
    ),
    brokers: Brokers,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="Port for clients. [default: 8080]"),
    ] = None,
    backend_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            metavar="PORT",
            help="Port of the first backend behind it; the others use the next ports. "
            "[default: 8081]",
        ),
    ] = None,
    without_nginx: Annotated[
        bool,
        typer.Option(
            "--without-nginx",
            help="Start no nginx: the first backend has the port for clients. "
            "[default: if nginx with Lua is missing]",
        ),
    ] = False,
    instances: Annotated[
        int | None, typer.Option(min=1, max=50, metavar="N", help="Backends. [default: 2]")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of stores and logs. [default: .queryable]"),
    ] = None,
    application_id: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the deployment. [default: one for this data folder]"
        ),
    ] = None,
) -> None:
    """Serve views of your own Kafka until Ctrl-C.

    Starts backends, nginx and, if views are derived, Spark, on this machine. Without nginx, each
    backend answers every request, and forwards it if another one has the key. Connects to Kafka as
    [kafka] of the views file says (SASL, TLS). Creates no topics except those of derived views,
    and <topic>.dead-letter: for a view's topic when a record cannot be read, and for each source of
    a derived view at the start. `queryable init` writes a views file.

    \b
    Examples:
      queryable serve
      queryable serve views.toml --bootstrap-servers broker:9092
      queryable serve --without-nginx
      queryable serve --port 9000 --backend-port 9001 --data-dir /srv/q
    """  # fmt: skip
    _require_server_packages()
    with server_extra("serve"):
        from local.errors import LocalError
        from local.serve import serve as run
        from queryable.cli.start.preflight import check_views
    topics = check_views(views, brokers.servers, brokers.seconds)
    options = {
        "proxy_port": port,
        "backend_port": backend_port,
        "instances": instances or (None if "QUERYABLE_INSTANCES" in os.environ else 2),
        "run_dir": data_dir or (None if "QUERYABLE_RUN_DIR" in os.environ else DATA_DIR),
        "application_id": application_id,
        "without_nginx": True if without_nginx else None,
    }
    try:
        run(views, brokers.servers, options, topics)
    except LocalError as error:
        print_stderr(f"queryable serve: {error}")
        raise SystemExit(UNAVAILABLE) from None


def _require_server_packages() -> None:
    """Raises BadUse if a package is missing that only the backends import."""
    for name in ("gunicorn", "rocksdict", "uvloop", "flask"):
        if find_spec(name) is None:
            raise BadUse(
                f"`queryable serve` requires {name}, which is not installed. "
                f"{how_to_install('server')}"
            )
