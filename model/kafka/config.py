"""Translates the `[kafka]` table for three clients: confluent-kafka, kafka-python and Spark's Java
client.

The table uses the names of librdkafka (its CONFIGURATION.md). Connection settings are translated
for the other two clients. A connection setting that a client does not support is an error.

Tables for the Python clients are resolved (`model.kafka.config_providers`). The Java client
resolves references itself, in each process of Spark, so no secret is in a plan or a message between
them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from posixpath import basename, dirname
from typing import Any

from model.kafka import token_function
from model.kafka.config_providers import Reference, has_reference, map_references
from model.kafka.token_function import TokenFunction
from model.problems import ConfigurationError

# A setting of each topic that this project creates: the broker rejects records whose timestamp is
# more than an hour ahead of its clock. Brokers before Kafka 3.6 do not know the setting and refuse
# to create a topic with it.
NOT_FROM_THE_FUTURE = {"message.timestamp.after.max.ms": "3600000"}

# librdkafka -> kafka-python
_KAFKA_PYTHON = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}

# librdkafka -> Java
_JAVA = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.key.password": "ssl.key.password",
}
_OIDC = frozenset(
    {"https.ca.location"}
    | {f"sasl.oauthbearer.{name}" for name in ("client.id", "client.secret", "scope", "extensions")}
)
# These become a part of sasl.jaas.config.
_IN_JAAS = _OIDC | {"sasl.username", "sasl.password"}
# Java takes PEM files as values of settings; its config provider reads the files.
_JAVA_PEM = {
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
_JAVA_PROVIDERS = {
    "file": "FileConfigProvider",
    "directory": "DirectoryConfigProvider",
    "env": "EnvVarConfigProvider",
}
_JAVA_SECURITY = "org.apache.kafka.common.security"

# other names of settings in librdkafka -> the names that are used here
_ALIASES = {
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_OIDC_ONLY = {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.grant.type": "client_credentials",
}
_FOR_OIDC = _OIDC | _OIDC_ONLY.keys() | {"sasl.oauthbearer.token.endpoint.url"}
# a class of Java, for Spark; the other clients call the function
_HANDLER = "sasl.login.callback.handler.class"
_FOR_FUNCTION = frozenset({token_function.SETTING, _HANDLER})

# the first word of SASL's mechanism -> the settings that it needs
_REQUIRED = {
    "PLAIN": ("sasl.username", "sasl.password"),
    "SCRAM": ("sasl.username", "sasl.password"),
    "OAUTHBEARER": (
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
    ),
}

# Connection settings need a counterpart in every client. Other settings are for librdkafka only.
_CONNECTION_PREFIXES = ("security.", "sasl.", "ssl.", "enable.ssl", "https.")

_SECRET = re.compile(r"pass|secret|jaas|private\.key|\.pem$|\.config$|^ssl\.keystore\.key$")


@dataclass(frozen=True, slots=True)
class OidcClient:
    """The settings with which a client requests its token: OAuth 2.0's client credentials (RFC
    6749, section 4.4)."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    ca_file: str | None = None
    """A PEM file with the certificate authorities of the token endpoint."""


def is_secret(name: str) -> bool:
    """Whether the value of a setting, with librdkafka's or Java's name, is a secret."""
    return _SECRET.search(name) is not None


def hide(text: str, table: Mapping[str, str], resolved: Mapping[str, str]) -> str:
    """A client's error message without secrets. Some messages quote the values of settings.

    A value that came from a reference is replaced by the reference, and another secret by
    `[hidden]`.
    """
    oidc = oidc_client(resolved)
    if oidc is not None:  # librdkafka quotes the token endpoint, which may quote the header
        credentials = f"{oidc.client_id}:{oidc.client_secret}".encode()
        text = text.replace(b64encode(credentials).decode(), "[hidden]")
    # the longest first, because a value may be a part of another
    for name in sorted(resolved, key=lambda name: len(resolved[name]), reverse=True):
        value, written = resolved[name], table[name]
        if value and (value != written or is_secret(name)):
            text = text.replace(value, written if value != written else "[hidden]")
    return text


def for_librdkafka(table: Mapping[str, str]) -> dict[str, Any]:
    """The table, and the callback for tokens from a function. librdkafka itself rejects unknown
    settings. Raises ConfigurationError if the function cannot be imported."""
    function = token_function_of(table)
    if function is None:
        return dict(table)
    settings = {name: value for name, value in table.items() if name not in _FOR_FUNCTION}
    return {**settings, "oauth_cb": function.oauth_cb}


def token_function_of(table: Mapping[str, str]) -> TokenFunction | None:
    """The function that `sasl.oauth.token` names; None without it. Raises ConfigurationError."""
    if token_function.SETTING not in table:
        return None
    return TokenFunction(_checked(table)[token_function.SETTING])


def for_kafka_python(table: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments for kafka-python's clients, without the provider of OAuth tokens. Raises
    ConfigurationError for unsupported connection settings."""
    table = _checked(table)
    settings: dict[str, Any] = {}
    for name, value in table.items():
        if name in _KAFKA_PYTHON:
            settings[_KAFKA_PYTHON[name]] = value
        elif name == "ssl.endpoint.identification.algorithm":
            settings["ssl_check_hostname"] = value == "https"
        elif name == "enable.ssl.certificate.verification":
            if value != "true":
                raise _unsupported(name, "kafka-python always verifies certificates")
        elif name.startswith(_CONNECTION_PREFIXES) and name not in _FOR_OIDC | _FOR_FUNCTION:
            raise _unsupported(name, "kafka-python has no counterpart")
    for name in ("security_protocol", "sasl_mechanism"):
        if name in settings:
            settings[name] = str(settings[name]).upper()
    if "SCRAM" in settings.get("sasl_mechanism", "") and "sasl_plain_username" in settings:
        # kafka-python (3.0) does not escape user names (RFC 5802, section 5.1)
        escaped = settings["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")
        settings["sasl_plain_username"] = escaped
    return settings


def for_java(table: Mapping[str, str]) -> dict[str, str]:
    """Settings of Kafka's Java clients, without Spark's prefix `kafka.`, from an unresolved table.
    Raises ConfigurationError for unsupported connection settings."""
    table = _checked(table)
    for name in ("security.protocol", "sasl.mechanism", "sasl.mechanisms"):
        if has_reference(table.get(name, "")):
            raise _unsupported(name, "write the value, because others depend on it")
    settings: dict[str, str] = {}
    jaas = _jaas(table)
    if jaas:
        settings["sasl.jaas.config"] = jaas
    if "ssl.ca.location" in table:
        settings["ssl.truststore.type"] = "PEM"
    if _JAVA_PEM.keys() & table.keys():
        settings["ssl.keystore.type"] = "PEM"
    for name, value in table.items():
        if name in _JAVA_PEM:
            settings[_JAVA_PEM[name]] = _content_of(name, value)
        elif name in _JAVA:
            settings[_JAVA[name]] = _java_references(name, value)
        elif name == "enable.ssl.certificate.verification":
            if value != "true":
                raise _unsupported(name, "Java always verifies certificates")
        elif name.startswith(_CONNECTION_PREFIXES) and name not in (
            _IN_JAAS | _OIDC_ONLY.keys() | _FOR_FUNCTION
        ):
            raise _unsupported(name, "Java has no counterpart")
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        settings["ssl.endpoint.identification.algorithm"] = ""  # Java's value for "none"
    for name in ("security.protocol", "sasl.mechanism"):
        if name in settings:
            settings[name] = settings[name].upper()
    if _mechanism(table) == "OAUTHBEARER":
        settings[_HANDLER] = _java_handler(table)
    return with_java_providers(settings)


def _java_handler(table: Mapping[str, str]) -> str:
    """The class that gets tokens for the Java client."""
    if token_function.SETTING not in table:
        return f"{_JAVA_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
    if not table.get(_HANDLER):
        raise _unsupported(
            token_function.SETTING,
            "Spark's Java client cannot call a function in Python. Name a Java class that gets "
            f"tokens in {_HANDLER}, and put its jar on Spark's class path",
        )
    return table[_HANDLER]


def with_java_providers(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a Java client, with the config providers that their references need."""
    used = [
        name
        for name in _JAVA_PROVIDERS
        if any(f"${{{name}:" in value for value in settings.values())
    ]
    if not used:
        return dict(settings)
    package = "org.apache.kafka.common.config.provider"
    classes = {f"config.providers.{name}.class": f"{package}.{_JAVA_PROVIDERS[name]}"
               for name in used}  # fmt: skip
    return {"config.providers": ",".join(used), **classes, **settings}


def check_java_values(table: Mapping[str, str], resolved: Mapping[str, str]) -> None:
    """Raise ConfigurationError if the Java client would misread a value that is referenced.

    The Java client replaces a reference within a quoted text by the bare value. It does not remove
    the line break at the end of a file, but `resolved` was read without it.
    """
    for name in _IN_JAAS & table.keys():
        if has_reference(table[name]) and any(c in '"\\\r\n' for c in resolved[name]):
            raise ConfigurationError(
                f"[kafka] {name}: Spark's Java client cannot use a referenced value with a "
                "quotation mark, a backslash or a line break"
            )


def oidc_client(table: Mapping[str, str]) -> OidcClient | None:
    """The client of the token endpoint; None without SASL's mechanism OAUTHBEARER, and if a
    function returns the tokens. Raises ConfigurationError."""
    table = _checked(table)
    if _mechanism(table) != "OAUTHBEARER" or token_function.SETTING in table:
        return None
    prefix = "sasl.oauthbearer"
    pairs = [pair.partition("=") for pair in table.get(f"{prefix}.extensions", "").split(",")]
    return OidcClient(
        table[f"{prefix}.token.endpoint.url"],
        table[f"{prefix}.client.id"],
        table[f"{prefix}.client.secret"],
        table.get(f"{prefix}.scope", ""),
        tuple((name.strip(), value) for name, equals, value in pairs if equals),
        table.get("https.ca.location"),
    )


def _checked(table: Mapping[str, str]) -> dict[str, str]:
    """The table with one name for each setting (`_ALIASES`). Raises ConfigurationError if the table
    is incomplete."""
    table = {_ALIASES.get(name, name): value for name, value in table.items()}
    mechanism = _mechanism(table)
    if token_function.SETTING in table:
        if mechanism != "OAUTHBEARER":
            raise _unsupported(token_function.SETTING, "it needs sasl.mechanism OAUTHBEARER")
        if both := sorted(_FOR_OIDC & table.keys()):
            raise _unsupported(token_function.SETTING, f"it replaces {both[0]}: remove that one")
        return table
    if _HANDLER in table:
        raise _unsupported(_HANDLER, f"it is only for {token_function.SETTING}")
    for name, value in _OIDC_ONLY.items():
        if table.get(name, value).lower() != value:
            raise _unsupported(name, f'only "{value}" works in all clients')
    for name in _REQUIRED.get(mechanism.partition("-")[0], ()):
        if not table.get(name):
            raise ConfigurationError(
                f"[kafka] {name} is missing: the mechanism {mechanism} needs it"
            )
    return table


def _mechanism(table: Mapping[str, str]) -> str:
    """SASL's mechanism; empty without one."""
    return (table.get("sasl.mechanism") or table.get("sasl.mechanisms") or "").upper()


def _jaas(table: Mapping[str, str]) -> str:
    """`sasl.jaas.config`; empty if no user is set."""
    if token_function.SETTING in table:
        return _login("oauthbearer.OAuthBearerLoginModule", {})
    oidc = oidc_client(table)
    if oidc is not None:
        options = {"clientId": oidc.client_id, "clientSecret": oidc.client_secret}
        if oidc.scope:
            options["scope"] = oidc.scope
        options |= {f"extension_{name}": value for name, value in oidc.extensions}
        if oidc.ca_file is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": oidc.ca_file}
        return _login("oauthbearer.OAuthBearerLoginModule", options)
    username, password = table.get("sasl.username"), table.get("sasl.password")
    if username is None or password is None:
        return ""
    module = "scram.ScramLoginModule" if "SCRAM" in _mechanism(table) else "plain.PlainLoginModule"
    return _login(module, {"username": username, "password": password})


def _login(module: str, options: Mapping[str, str]) -> str:
    quoted = "".join(
        f" {name}={_quote(_java_references(name, value))}" for name, value in options.items()
    )
    return f"{_JAVA_SECURITY}.{module} required{quoted};"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _java_references(name: str, value: str) -> str:
    """The value, with references in the form that Kafka's own config providers know."""

    def java(reference: Reference) -> str:
        path, key = reference
        if path is None:
            return f"${{env:{key}}}"
        return _directory_reference(path) if key is None else f"${{file:{path}:{key}}}"

    return map_references(name, value, java)


def _content_of(name: str, path: str) -> str:
    if any(c in path for c in ":{}$"):
        raise _unsupported(name, "Java needs a plain path here, without ':', '{', '}' or '$'")
    return _directory_reference(path)


def _directory_reference(path: str) -> str:
    return f"${{directory:{dirname(path) or '.'}:{basename(path)}}}"


def _unsupported(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"[kafka] {name}: {reason}")
