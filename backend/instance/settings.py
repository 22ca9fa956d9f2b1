"""The settings of a backend: environment variables `QUERYABLE_*`, and the file with the views.

They are read once, at the start.
"""

from __future__ import annotations

import socket
from functools import lru_cache, partial
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

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
    advertised_host: str = Field("", description="where proxies and peers reach it; host if empty")
    advertised_port: int = Field(0, ge=0, le=65535, description="the same; port if 0")
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
        description="proxies whose `Queryable-Client` is believed, such as 10.0.0.7,10.1.0.0/16",
    )
    acceptable_recovery_lag: int = Field(
        10_000,
        ge=0,
        description="maximum lag (records) at which a restarted instance answers at once",
    )
    session_timeout_ms: int = Field(
        6_000, ge=500, description="silence after which the group considers an instance dead"
    )
    metadata_max_age_ms: int = Field(
        5_000, ge=100, description="how often the group's leader looks for new partitions"
    )
    group_record_bytes: int = Field(
        900_000,
        ge=1,
        description="size of the group's record above which the topology is sent by reference",
    )
    end_offset_interval: float = Field(
        1.0, gt=0, description="seconds between two polls of the log end offsets; fewer if needed"
    )
    broker_timeout: float = Field(5.0, gt=0, description="seconds for one request to the broker")
    start_timeout: float = Field(
        30.0, gt=0, description="seconds to wait for the broker at the start before giving up"
    )
    cleanup_delay: float = Field(
        600.0, ge=0, description="seconds until the store of a partition that moved away is deleted"
    )
    copy_threshold: int = Field(
        100_000,
        ge=1,
        description="minimum records of a partition for fetching a snapshot from a peer",
    )
    copy_bandwidth: float = Field(
        100e6, gt=0, description="maximum bytes per second for sending snapshots to a peer"
    )
    push_interval: float = Field(
        0.5, gt=0, description="seconds between two looks into the folder of a view's pushes"
    )
    clock_tolerance: float = Field(
        60.0,
        ge=0,
        le=1e9,
        description="seconds that a record's time may be ahead of the clock and expire others",
    )
    wait_timeout: float = Field(
        0.2, ge=0, description="seconds that a read waits for an instance that can answer"
    )
    forward_timeout: float = Field(
        2.0,
        gt=0,
        description="seconds for a forwarded read, at all replicas together; nginx needs 5 or less",
    )
    heartbeat_interval: float = Field(
        0.25,
        gt=0,
        description="seconds between heartbeats that are missed; an instance is dead after four",
    )
    drain_time: float = Field(
        1.5,
        ge=0,
        description="seconds for which a stopping instance still answers, if others take over",
    )
    max_key_bytes: int = Field(8192, ge=1, description="maximum key size in a request")
    max_in_flight: int = Field(
        2000, ge=1, description="maximum concurrent requests; more get 503 overloaded"
    )
    send_timeout: float = Field(
        60.0,
        gt=0,
        description="seconds after which a client that does not read its answer is disconnected",
    )
    request_timeout: float = Field(
        30.0, gt=0, description="seconds within which a complete request must arrive"
    )
    kiqr: bool = Field(True, description="whether KIQR's REST dialect is served under /api/v1")
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
    write_buffer_mb: int = Field(
        8, ge=1, le=1024, description="MiB of a store's memtable before it is flushed (RocksDB)"
    )
    background_jobs: int = Field(
        2,
        ge=1,
        le=64,
        description="threads for flushes (two at least) and compactions (RocksDB)",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="log lines: `text` for people, `json` for one object an event"
    )
    request_log: Literal["off", "on"] = Field(
        "off", description="`on`: a log line for each request but plain point reads"
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
    jwt_jwks_refresh: float = Field(
        10.0, ge=1, description="seconds between two reads of the JWK set at a URL"
    )
    jwt_jwks_max_age: float = Field(
        86400.0,
        ge=60,
        description="seconds for which the keys of a URL stay usable while it cannot be read",
    )
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

    @field_validator("host", "advertised_host")
    @classmethod
    def _has_brackets(cls, value: str) -> str:
        """The value; an IPv6 address gets brackets, as in a URL."""
        if ":" not in value:
            return value
        address = value[1:-1] if value[0] + value[-1] == "[]" else value
        try:
            ip_address(address.partition("%")[0])
        except ValueError:
            raise ValueError("a host name or an address, without a scheme and a port") from None
        return f"[{address}]"

    @field_validator(
        "tls_cert_file", "tls_key_file", "tls_client_ca_file", "tls_ca_file", mode="before"
    )
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return value or None

    @model_validator(mode="after")
    def _derived(self) -> Settings:
        derived = {
            "advertised_host": self.advertised_host or self.host,
            "advertised_port": self.advertised_port or self.port,
        }
        derived["instance_id"] = (
            self.instance_id or f"{derived['advertised_host']}-{derived['advertised_port']}"
        )
        for name, value in derived.items():
            object.__setattr__(self, name, value)  # the model is frozen
        return self


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
