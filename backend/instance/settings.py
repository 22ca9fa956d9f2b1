"""The settings of a backend: environment variables `QUERYABLE_*`, and the file with the views.

They are read once, at the start.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import lru_cache, partial
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from backend.instance.gone_settings import refuse_gone_settings
from model.changes.deployments import NAME as SERVICE_NAME
from model.problems import ConfigurationError
from model.views import Deployment
from model.views_file import parse_views


class Settings(BaseSettings):
    """The settings of one instance. Each field is the environment variable QUERYABLE_<FIELD>."""

    model_config = SettingsConfigDict(env_prefix="QUERYABLE_", frozen=True, allow_inf_nan=False)

    bootstrap_servers: str = Field("127.0.0.1:9092", description="Kafka brokers, host:port,…")
    application_id: str = Field(
        "queryable-topics", description="the deployment: instances with the same id share the views"
    )
    service: str = Field(
        "",
        description="the service of this deployment, if several deployments share their proxies",
    )
    instance_id: str = Field("", description="name of this instance; host-port if empty")
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8081, ge=1, le=65535, description="port to listen on")
    advertised: str = Field(
        "",
        description="where proxies and peers reach it, host or host:port; host and port if empty",
    )
    rack: str = Field(
        "",
        description="rack or zone; standbys are placed in other racks than the active, if possible",
    )
    standby_replicas: int = Field(
        1,
        ge=0,
        description="standby replicas per partition, if there are enough instances",
    )
    data_dir: Path = Field(
        Path("data"), description="folder of the stores; each instance needs its own"
    )
    views: Path = Field(Path("views.toml"), description="the file that declares the views")
    schema_registry_auth: str = Field(
        "",
        repr=False,
        description="user:password for the schema registry; may be `${file:…}` or `${env:…}`",
    )
    schema_missing_after: float = Field(
        120.0,
        ge=0,
        description="s for which a schema must be missing before its records are unreadable",
    )
    cluster_secret_file: str = Field(
        "",
        description="file with the cluster secret; empty: internal routes only on loopback",
    )
    trusted_proxies: str = Field(
        "",
        description="proxies whose `X-Forwarded-For` is believed, such as 10.0.0.7,10.1.0.0/16",
    )
    acceptable_recovery_lag: int = Field(
        10_000,
        ge=0,
        description="lag (records) up to which a restarted instance answers immediately",
    )
    session_timeout_ms: int = Field(
        6_000, ge=500, description="silence after which the group considers an instance dead"
    )
    end_offset_interval: float = Field(
        1.0, gt=0, description="seconds between two polls of the log end offsets; fewer if needed"
    )
    copy_bandwidth: float = Field(
        100e6, gt=0, description="maximum bytes per second for sending snapshots to a peer"
    )
    max_in_flight: int = Field(
        2000, ge=1, description="maximum concurrent requests; more get 503 overloaded"
    )
    allowed_hosts: str = Field(
        "",
        description="names of the service that clients use, such as queryable.example.com, name,…",
    )
    cors_origins: str = Field(
        "",
        description="origins whose pages may send requests, such as https://app.example.com,…",
    )
    audit_log: str = Field(
        "", description="file for appends, admin actions and refusals; stderr if empty"
    )
    block_cache_mb: int = Field(
        96, ge=16, le=1 << 20, description="MiB for blocks and memtables of all stores (RocksDB)"
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="log lines: `text` for people, `json` for one object an event"
    )
    request_log: Literal["off", "on"] = Field(
        "off", description="`on`: a log line for each request except plain point reads"
    )
    otlp_endpoint: str = Field(
        "", description="OpenTelemetry collector for traces (OTLP over HTTP), http://host:4318"
    )
    otlp_ratio: float = Field(
        1.0, ge=0, le=1, description="part of the traces that are sent to the collector"
    )
    auth: Literal["off", "jwt"] = Field(
        "off", description="`jwt`: every request needs a JSON Web Token, except for `/health/`"
    )
    jwt_key_file: str = Field(
        "", description="file with the public keys (PEM) or the secret (HS256) that verify tokens"
    )
    jwt_jwks: str = Field("", description="file or URL of the JWK set that verifies tokens")
    jwt_issuer: str = Field("", description="issuer that tokens must have; any if empty")
    jwt_audience: str = Field("", description="audience that tokens must be for; any if empty")
    jwt_algorithms: str = Field(
        "HS256,RS256,ES256,EdDSA", description="algorithms that tokens may be signed with"
    )
    jwt_header: str = Field(
        "", description="name of one more header that may have the token, set by an OIDC proxy"
    )
    max_streams: int = Field(
        1000, ge=0, description="maximum concurrent streams of changes; more get 503 overloaded"
    )

    tls_cert_file: Path | None = Field(
        None,
        description="certificate chain (PEM): the instance speaks HTTPS, and shows it to its peers",
    )
    tls_key_file: Path | None = Field(None, description="key of the certificate (PEM)")
    tls_client_ca_file: Path | None = Field(
        None,
        description="authorities (PEM) of the deployment's instances and proxies, for mutual TLS",
    )
    tls_ca_file: Path | None = Field(
        None, description="authorities (PEM) of peers' certificates; empty: those of the system"
    )

    @property
    def ends_trusted_for(self) -> float:
        """The maximum age (s) of a log end from which the lag is computed; a few polls may fail."""
        return 3 * self.end_offset_interval + 2

    @property
    def advertised_host(self) -> str:
        """The host under which proxies and peers reach this instance."""
        return self.advertised.rpartition(":")[0]

    @property
    def advertised_port(self) -> int:
        """The port under which proxies and peers reach this instance."""
        return int(self.advertised.rpartition(":")[2])

    @property
    def is_open_to_others(self) -> bool:
        """Whether everyone who reaches the machine may read: it listens on another address than
        loopback, and authentication is off."""
        return self.auth == "off" and not is_loopback(self.host)

    @field_validator("service")
    @classmethod
    def _names_a_topic(cls, value: str) -> str:
        if value and not SERVICE_NAME.fullmatch(value):
            raise ValueError("1 to 200 letters, digits, '.', '_' and '-' name a service")
        return value

    @field_validator("host")
    @classmethod
    def _is_a_host(cls, value: str) -> str:
        return _host(value)

    @field_validator("advertised")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        _address(value)
        return value

    @field_validator(
        "tls_cert_file", "tls_key_file", "tls_client_ca_file", "tls_ca_file", mode="before"
    )
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return value or None

    @model_validator(mode="after")
    def _derived(self) -> Settings:
        host, port = _address(self.advertised)
        host, port = host or self.host, port or self.port
        derived = {
            "advertised": f"{host}:{port}",
            "instance_id": self.instance_id or f"{host}-{port}",
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)  # the model is frozen
        return self


def _host(value: str) -> str:
    """The host; an IPv6 address gets brackets, as in a URL. Raises ValueError."""
    if ":" not in value:
        return value
    address = value[1:-1] if value[0] + value[-1] == "[]" else value
    try:
        ip_address(address.partition("%")[0])
    except ValueError:
        raise ValueError("a host name or an address, without a scheme and a port") from None
    return f"[{address}]"


def _address(value: str) -> tuple[str, int]:
    """The host and the port of `host:port`. Without a port, it is 0. Raises ValueError."""
    with suppress(ValueError):
        return _host(value), 0
    host, _, port = value.rpartition(":")
    with suppress(ValueError):
        if host and port.isdecimal() and 1 <= int(port) <= 65_535:
            return _host(host), int(port)
    raise ValueError("host or host:port, without a scheme")


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether the address, to listen on or of a socket, is of this machine's loopback interface."""
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def load_settings() -> Settings:
    """Read the settings from the environment. Raises ConfigurationError, which names the variable
    and the problem."""
    refuse_gone_settings(os.environ)
    try:
        return Settings()
    except ValidationError as e:
        raise ConfigurationError(problems_of(e)) from None


def problems_of(error: ValidationError) -> str:
    """One line with the invalid variables and their problems."""
    return "; ".join(
        f"QUERYABLE_{'_'.join(map(str, problem['loc'])).upper()}: {problem['msg']}"
        f" (it is {problem['input']!r})"
        for problem in error.errors()
    )


def read_views(path: Path) -> Deployment:
    """Parse the file that declares the views. Raises ConfigurationError if it is missing or
    invalid."""
    try:
        return parse_views(path.read_text(), str(path), partial(_read_beside, path))
    except OSError as e:
        raise ConfigurationError(
            f"cannot read the views: {path}: {e.strerror}. Set QUERYABLE_VIEWS to the file that "
            f"declares them."
        ) from e
    except UnicodeDecodeError as e:
        raise ConfigurationError(f"{path} is not UTF-8 text: {e}") from None


def _read_beside(views: Path, name: str) -> bytes:
    """Read a file that views.toml names, relative to it. Raises ValueError."""
    try:
        return (views.parent / name).read_bytes()
    except OSError as e:
        raise ValueError(f"cannot read the file: {e.strerror}") from None


def check_port(settings: Settings) -> None:
    """Raise ConfigurationError if the address is not available."""
    host = settings.host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, settings.port))
        except OSError as e:
            raise ConfigurationError(
                f"cannot listen on {settings.host}:{settings.port}: {e.strerror}. Set "
                f"QUERYABLE_HOST and QUERYABLE_PORT, or stop the program that uses the port."
            ) from e
