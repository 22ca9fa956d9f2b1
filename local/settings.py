"""Settings of the local stack: environment variables ``QUERYABLE_*``, read once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from backend.instance.settings import problems_of
from local.errors import LocalError
from local.kafka.connection import Kafka, kafka_of

REPOSITORY = Path(__file__).resolve().parent.parent

PATHS = (
    "QUERYABLE_AUDIT_LOG",
    "QUERYABLE_CLUSTER_SECRET_FILE",
    "QUERYABLE_DATA_DIR",
    "QUERYABLE_JWT_JWKS",  # or a URL
    "QUERYABLE_JWT_KEY_FILE",
    "QUERYABLE_PROXY_TLS_CERT_FILE",
    "QUERYABLE_PROXY_TLS_KEY_FILE",
    "QUERYABLE_RUN_DIR",
    "QUERYABLE_TLS_CA_FILE",
    "QUERYABLE_TLS_CERT_FILE",
    "QUERYABLE_TLS_CLIENT_CA_FILE",
    "QUERYABLE_TLS_KEY_FILE",
    "QUERYABLE_VIEWS",
)
"""The variables that name a file or a folder."""


class StackSettings(BaseSettings):
    """One stack. Each field is an environment variable QUERYABLE_<FIELD>."""

    model_config = SettingsConfigDict(env_prefix="QUERYABLE_", frozen=True)

    bootstrap_servers: str = Field(
        "", description="your own Kafka, host:port,…; empty: an embedded broker is started"
    )
    broker_port: int = Field(9092, ge=1, le=65535, description="port of the embedded broker")
    proxy_port: int = Field(
        8080, ge=1, le=65535, description="port of nginx; without nginx, of the first backend"
    )
    backend_port: int = Field(
        8081, ge=1, le=65535, description="port of the first backend; the others use the next ports"
    )
    without_nginx: bool = Field(
        False,
        description="yes: no nginx is started; the first backend has its port, and the others the "
        "ports from QUERYABLE_BACKEND_PORT",
    )
    instances: int = Field(3, ge=1, le=50, description="how many backends")
    application_id: str = Field("queryable-topics", description="the deployment's name")
    demo_data: bool = Field(
        False,
        description="yes: create the demo's topics in your own Kafka, and load 336,776 flights",
    )
    run_dir: Path = Field(Path(".run"), description="folder of logs, pid files and data")
    views: Path = Field(REPOSITORY / "views.toml", description="the file that declares the views")

    spark_views: str = Field(
        "",
        description="the views that Spark derives: names, files, folders or modules, separated by "
        "commas; empty: the entries of the file of views with a spark_view (the demo's own file "
        "needs the demo's data)",
    )

    create_topics: bool = Field(
        True, description="no: Spark's job creates no topics, so those of its views must exist"
    )

    # these three are settings of the backends
    auth: Literal["off", "jwt"] = Field(
        "off", description="`jwt`: every request needs a JSON Web Token, except for `/health/`"
    )
    cluster_secret_file: str = Field(
        "",
        description="file with the cluster secret; empty: internal routes only on loopback",
    )
    tls_cert_file: str = Field(
        "",
        description="certificate chain (PEM): the instance speaks HTTPS, and shows it to its peers",
    )
    token: str = Field(
        "", description="the token of the client, the console, and the demo's requests", repr=False
    )

    @property
    def headers(self) -> dict[str, str]:
        """Headers for requests to the proxy, with the token if there is one."""
        token = self.token.strip()
        return {"Authorization": f"Bearer {token}"} if token else {}

    @property
    def servers(self) -> str:
        """The address of Kafka, embedded or the user's."""
        return self.bootstrap_servers or f"127.0.0.1:{self.broker_port}"

    @property
    def has_demo_views(self) -> bool:
        """Whether the file of views is the demo's."""
        return self.views.absolute() == (REPOSITORY / "views.toml")

    @property
    def has_demo(self) -> bool:
        """Whether the demo's topics are created and loaded: always in the embedded Kafka, in the
        user's own only with QUERYABLE_DEMO_DATA."""
        return not self.bootstrap_servers or self.demo_data

    @property
    def kafka(self) -> Kafka:
        """Client settings; the embedded Kafka has no users."""
        return kafka_of(self.servers, self.views if self.bootstrap_servers else None)

    @property
    def state_dir(self) -> Path:
        """The folder of checkpoints and stores. Each Kafka cluster has a separate folder, because
        they match only one cluster."""
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", self.bootstrap_servers) or "embedded"
        return self.run_dir.absolute() / "state" / slug

    @property
    def backend_ports(self) -> list[int]:
        ports = [self.backend_port + number for number in range(self.instances)]
        return [self.proxy_port, *ports[:-1]] if self.without_nginx else ports

    @property
    def backend_urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.backend_ports]

    @property
    def url(self) -> str:
        """The address for clients: nginx's; without nginx, that of the first backend."""
        return f"http://127.0.0.1:{self.proxy_port}"


def absolute_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that name a file or a folder, as absolute paths, because processes run in other
    folders."""
    paths = {name: environment[name] for name in PATHS if environment.get(name)}
    return {
        name: str(Path(value).absolute()) for name, value in paths.items() if "://" not in value
    }


def load_settings(**fields: Any) -> StackSettings:
    """Reads the environment; ``fields`` take precedence. ``LocalError`` names the variable and the
    problem."""
    try:
        return StackSettings(**fields)
    except ValidationError as error:
        raise LocalError(problems_of(error)) from None
