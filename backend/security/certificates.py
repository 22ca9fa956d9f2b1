"""TLS of an instance: its certificate, and the authorities whose certificates it accepts.

The files are read again when they change, without a restart: new connections use the new ones, and
open connections stay. TLS 1.2 is the oldest version.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography import x509

from backend.instance.settings import Settings
from backend.security.private_files import exposure
from model.problems import ConfigurationError

log = logging.getLogger(__name__)

_MAX_FILE_BYTES = 1 << 20  # a bundle of all public authorities has 0.2 MB

_CERT, _KEY = "QUERYABLE_TLS_CERT_FILE", "QUERYABLE_TLS_KEY_FILE"
_CLIENT_CA, _CA = "QUERYABLE_TLS_CLIENT_CA_FILE", "QUERYABLE_TLS_CA_FILE"


class Certificates:
    """The TLS contexts of one instance, from the files of its settings."""

    def __init__(self, settings: Settings | None = None) -> None:
        """`settings`: None if there are no files. Raises ConfigurationError if a file is missing or
        wrong."""
        files = settings and {
            _CERT: settings.tls_cert_file,
            _KEY: settings.tls_key_file,
            _CLIENT_CA: settings.tls_client_ca_file,
            _CA: settings.tls_ca_file,
        }
        self._files = {name: path for name, path in (files or {}).items() if path is not None}
        if (_CERT in self._files) != (_KEY in self._files):
            raise ConfigurationError(f"set both {_CERT} and {_KEY}, or neither")
        if _CLIENT_CA in self._files and _CERT not in self._files:
            raise ConfigurationError(f"{_CLIENT_CA} requires {_CERT} and {_KEY}")
        self._seen = _state_of(self._files)
        self._server: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None
        self.expires_at: float | None = None
        """When the certificate of this instance expires (Unix time, s); None without one."""
        self._load()
        self.listening = self._listening_context()
        """The context for all sockets of this instance that listen; None: without TLS."""

    def peers(self) -> ssl.SSLContext:
        """The context for new connections to other instances: it verifies their certificate and
        host name, and shows this instance's certificate to peers that ask for one."""
        if self._client is None:
            self._client = _client_context(self._files)
        return self._client

    def refresh(self) -> None:
        """Use the files if they have changed. If the new ones are wrong, the last valid ones stay
        in use, and the log says why. Costs a few microseconds if nothing has changed."""
        state = _state_of(self._files)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._load()
        except ConfigurationError as error:
            log.error("the changed TLS files are not used: %s", error)
        else:
            log.info("the TLS files have changed: new connections use them")

    def _load(self) -> None:
        """Replace all contexts, or none of them."""
        if not self._files:
            return
        contents = {name: _read(name, path) for name, path in self._files.items()}
        client = _client_context(self._files)
        if _CERT in self._files:
            self.expires_at = _expiry(contents[_CERT])
            self._server = _server_context(self._files)
        self._client = client

    def _listening_context(self) -> ssl.SSLContext | None:
        """A context that hands each handshake to the latest context. (OpenSSL could replace the
        certificate of a context in use, but not remove an authority, and a new certificate with the
        old key would break it.)"""
        if self._server is None:
            return None
        listening = _server_context(self._files)

        def use_latest(connection: Any, *_: object) -> None:
            connection.context = self._server

        # called for each handshake, also for those without a server name
        listening.sni_callback = use_latest
        return listening


def _state_of(files: Mapping[str, Path]) -> tuple[object, ...]:
    """Changes when a file is written or replaced."""
    return tuple(_stat(path) for path in files.values())


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size, stat.st_mode


def _read(name: str, path: Path) -> bytes:
    """The content of a file that OpenSSL reads next. Raises ConfigurationError."""
    try:
        with path.open("rb") as file:
            wrong = exposure(os.fstat(file.fileno())) if name == _KEY else None
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{name}: cannot read {path}: {error.strerror}") from None
    if wrong is not None:
        raise ConfigurationError(f"{name}: {path}: {wrong}")
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigurationError(f"{name}: {path} has more than {_MAX_FILE_BYTES} bytes")
    if name == _KEY:
        # OpenSSL would ask for the password on the terminal
        if b"ENCRYPTED" in content:
            raise ConfigurationError(f"{name}: {path} is encrypted; give a key without a password")
        if b"PRIVATE KEY-----" not in content:
            raise ConfigurationError(f"{name}: {path} has no private key in PEM")
        return content
    try:
        x509.load_pem_x509_certificates(content)
    except ValueError:
        raise ConfigurationError(f"{name}: {path} has no certificates in PEM") from None
    return content


def _expiry(content: bytes) -> float:
    """When the first certificate of a chain expires (Unix time, s)."""
    return x509.load_pem_x509_certificates(content)[0].not_valid_after_utc.timestamp()


def _server_context(files: Mapping[str, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # a resumed session would skip the check of the client's certificate
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    _load_own(context, files)
    if _CLIENT_CA in files:
        _load_authorities(context, _CLIENT_CA, files[_CLIENT_CA])
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _client_context(files: Mapping[str, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if _CA in files:
        _load_authorities(context, _CA, files[_CA])
    else:
        context.load_default_certs()
    if _CERT in files:
        _load_own(context, files)
    return context


def _load_own(context: ssl.SSLContext, files: Mapping[str, Path]) -> None:
    try:
        context.load_cert_chain(files[_CERT], files[_KEY], password=b"")
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{_CERT}, {_KEY}: {files[_KEY]} is not the key of the certificate in {files[_CERT]} "
            f"({_reason(error)})"
        ) from None


def _load_authorities(context: ssl.SSLContext, name: str, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{name}: cannot use {path}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or str(error)
