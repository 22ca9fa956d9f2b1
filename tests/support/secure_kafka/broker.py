"""One broker for all mechanisms: a listener with SASL over TLS, and one with client certificates.

ACLs are on (KRaft's StandardAuthorizer). The user of each mechanism is a super user; `LIMITED` has
no permissions but those that a test gives it. `ROTATED` is a super user without a password: a test
gives it one with `set_password`, and others later.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from local.kafka.broker import Broker, quiet_admin
from local.ports import LOOPBACK, free_ports
from local.waiting import wait_until
from tests.support.secure_kafka.certificates import Authority
from tests.support.secure_kafka.token_endpoint import AUDIENCE, TokenEndpoint

# Easy to find in a log. None of the characters has a meaning in JAAS settings.
PASSWORDS = {
    name: f"K4fka-{name}-S3cret=/;'" for name in ("plain", "scram", "oauth", "tls", "limited")
}
LIMITED = "limited"
ROTATED = "rotated"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "TLS")
_SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_SECURITY = "org.apache.kafka.common.security"


class SecureBroker(Broker):
    """`table(mechanism)` is a table [kafka]; secrets are references to the file `secrets`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data")
        self._exits = ExitStack()
        self.authority = Authority(folder)
        self._broker_files = self.authority.issue("broker")
        self.client_files = self.authority.issue("tls", PASSWORDS["tls"])
        # Java (17) cannot decrypt what `cryptography` and openssl write by default
        self._java_files = self.authority.issue("tls-java")
        self.tokens = TokenEndpoint(folder, self._broker_files, ("oauth", PASSWORDS["oauth"]))
        self.secrets = folder / "secrets.properties"
        self.secrets.write_text("".join(f"{k}={v}\n" for k, v in PASSWORDS.items()))
        self._sasl, self._tls = free_ports(2)

    def __enter__(self) -> Self:
        self._exits.enter_context(self.tokens)
        self.start()
        self._add_scram_users()
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self._exits.close()

    def address(self, mechanism: str) -> str:
        return f"{LOOPBACK}:{self._tls if mechanism == 'TLS' else self._sasl}"

    def table(self, mechanism: str) -> dict[str, str]:
        ca = {"ssl.ca.location": str(self.authority.path)}
        if mechanism == "TLS":
            certificate, key = map(str, self.client_files)
            return {
                "security.protocol": "SSL",
                **ca,
                "ssl.certificate.location": certificate,
                "ssl.key.location": key,
                "ssl.key.password": self.reference("tls"),
            }
        sasl = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, **ca}
        if mechanism == "OAUTHBEARER":
            prefix = "sasl.oauthbearer"
            return {
                **sasl,
                f"{prefix}.method": "oidc",
                f"{prefix}.token.endpoint.url": self.tokens.url,
                f"{prefix}.client.id": "oauth",
                f"{prefix}.client.secret": self.reference("oauth"),
                f"{prefix}.scope": "kafka",
                "https.ca.location": str(self.authority.path),
            }
        user = "plain" if mechanism == "PLAIN" else "scram"
        return {**sasl, "sasl.username": user, "sasl.password": self.reference(user)}

    def java_table(self, mechanism: str) -> dict[str, str]:
        """For Spark: the key of the client is not encrypted."""
        table = self.table(mechanism)
        if mechanism == "TLS":
            del table["ssl.key.password"]
            certificate, key = map(str, self._java_files)
            table |= {"ssl.certificate.location": certificate, "ssl.key.location": key}
        return table

    def reference(self, name: str) -> str:
        return f"${{file:{self.secrets}:{name}}}"

    def _all_properties(self) -> dict[str, str]:
        properties = super()._all_properties()
        listeners = f"SASL://{LOOPBACK}:{self._sasl},TLS://{LOOPBACK}:{self._tls}"
        for name in ("listeners", "advertised.listeners"):
            properties[name] += f",{listeners}"
        properties["listener.security.protocol.map"] += ",SASL:SASL_SSL,TLS:SSL"
        # one PEM file has the key and the certificate
        store = self.data_dir / "broker.pem"
        store.write_bytes(b"".join(path.read_bytes() for path in reversed(self._broker_files)))
        for listener in ("sasl", "tls"):
            prefix = f"listener.name.{listener}.ssl"
            properties |= {
                f"{prefix}.keystore.type": "PEM",
                f"{prefix}.keystore.location": str(store),
                f"{prefix}.truststore.type": "PEM",
                f"{prefix}.truststore.location": str(self.authority.path),
                f"{prefix}.client.auth": "required" if listener == "tls" else "none",
            }
        return properties | self._sasl_properties() | self._acl_properties()

    def _sasl_properties(self) -> Mapping[str, str]:
        prefix = "listener.name.sasl"
        users = " ".join(f'user_{user}="{PASSWORDS[user]}"' for user in ("plain", LIMITED))
        plain = f"{_SECURITY}.plain.PlainLoginModule required {users};"
        scram = f"{_SECURITY}.scram.ScramLoginModule required;"
        handler = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        return {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS[:4]),
            f"{prefix}.plain.sasl.jaas.config": plain,
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
            f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
            f"{prefix}.oauthbearer.sasl.jaas.config": (
                f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;"
            ),
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": handler,
            f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.tokens.keys.as_uri(),
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        }

    def _acl_properties(self) -> Mapping[str, str]:
        users = ("ANONYMOUS", "plain", "scram", ROTATED, "oauth", "CN=tls", "CN=tls-java")
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{user}" for user in users),
        }

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        java, *rest = super()._java(main_class, *arguments)
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
        return [java, f"{allowed}={self.tokens.keys.as_uri()}", *rest]

    def set_password(self, user: str, mechanism: str, password: str) -> None:
        """Sets the password of a SCRAM user; the one before is refused from then on."""
        admin = quiet_admin(self.bootstrap_servers)
        info = ScramCredentialInfo(_SCRAM[mechanism], 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        [future] = admin.alter_user_scram_credentials([change]).values()
        future.result(20)

    def accepts(self, user: str, mechanism: str, password: str) -> bool:
        """Whether this is the password of a SCRAM user."""
        refused: list[KafkaError] = []
        settings: dict[str, Any] = {
            **self.table(mechanism),
            "bootstrap.servers": self.address(mechanism),
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": refused.append,
            "log_level": 0,
        }
        client = AdminClient(settings)
        future = client.describe_cluster(request_timeout=10)

        def is_decided() -> bool:
            client.poll(0)  # calls error_cb
            return future.done() or bool(refused)

        wait_until(is_decided, 10, "the broker to accept or refuse a password", 0.02)
        return not refused

    def _add_scram_users(self) -> None:
        for mechanism in _SCRAM:
            self.set_password("scram", mechanism, PASSWORDS["scram"])
        admin = quiet_admin(self.bootstrap_servers)

        def known() -> bool:
            [future] = admin.describe_user_scram_credentials(["scram"]).values()
            try:
                return len(future.result(10).scram_credential_infos) == 2
            except KafkaException as error:
                if error.args[0].code() != KafkaError.RESOURCE_NOT_FOUND:
                    raise
                return False  # not yet

        wait_until(known, 20, "SCRAM's users")
