"""Tests of the [kafka] table: settings are translated for each client, or refused."""

import time

import pytest

from model.kafka.config import (
    OidcClient,
    check_java_values,
    for_java,
    for_kafka_python,
    for_librdkafka,
    hide,
    is_secret,
    oidc_client,
)
from model.problems import ConfigurationError

SASL = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": 'se"cr\\et',
}
TLS = {
    "security.protocol": "SSL",
    "ssl.ca.location": "ca.pem",
    "ssl.endpoint.identification.algorithm": "none",
}
OAUTH = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "OIDC",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.secret": "s3cret",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "a=1,b=2=",
    "https.ca.location": "/ca.pem",
}


def test_librdkafka_gets_the_unchanged_table() -> None:
    assert for_librdkafka(SASL) == SASL
    assert for_librdkafka({}) == {}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, {}),
        (
            SASL,
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "alice",
                "sasl_plain_password": 'se"cr\\et',
            },
        ),
        (TLS, {"security_protocol": "SSL", "ssl_cafile": "ca.pem", "ssl_check_hostname": False}),
        ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl_check_hostname": True}),
        (
            {"ssl.certificate.location": "c.pem", "ssl.key.location": "k.pem"},
            {"ssl_certfile": "c.pem", "ssl_keyfile": "k.pem"},
        ),
        ({"enable.ssl.certificate.verification": "true"}, {}),
        # other settings are for librdkafka only
        ({"socket.keepalive.enable": "true", "fetch.wait.max.ms": "10"}, {}),
    ],
)
def test_kafka_python(table: dict[str, str], expected: dict[str, object]) -> None:
    assert for_kafka_python(table) == expected


def test_kafka_python_knows_the_names() -> None:
    from kafka import KafkaConsumer

    all_settings = {
        **SASL,
        **TLS,
        **{f"ssl.{kind}.location": "x" for kind in ("certificate", "key", "crl")},
        "ssl.key.password": "x",
        "sasl.kerberos.service.name": "kafka",
    }
    assert set(for_kafka_python(all_settings)) <= set(KafkaConsumer.DEFAULT_CONFIG)


@pytest.mark.parametrize(
    "name",
    [
        *("ssl.keystore.location", "sasl.oauthbearer.config", "ssl.ca.pem", "ssl.curves.list"),
        "ssl.cipher.suites",  # kafka-python (3.0) has a name for it, and ignores it
        *("https.ca.pem", "sasl.oauthbearer.assertion.file"),
    ],
)
def test_connection_settings_without_a_counterpart_are_refused(name: str) -> None:
    for translate in (for_kafka_python, for_java):
        with pytest.raises(ConfigurationError, match=rf"\[kafka\] {name}: "):
            translate({name: "x"})


def test_clients_that_always_verify_certificates_refuse_to_disable_it() -> None:
    table = {"enable.ssl.certificate.verification": "false"}
    for translate in (for_kafka_python, for_java):
        with pytest.raises(ConfigurationError, match="always verif"):
            translate(table)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, {}),
        (
            SASL,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
                'required username="alice" password="se\\"cr\\\\et";',
            },
        ),
        (
            {**SASL, "sasl.mechanisms": "SCRAM-SHA-512", "sasl.password": "p"},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
                'required username="alice" password="p";',
            },
        ),
        (
            TLS,
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "ca.pem",
                "ssl.endpoint.identification.algorithm": "",
            },
        ),
        (
            {"ssl.endpoint.identification.algorithm": "https"},
            {"ssl.endpoint.identification.algorithm": "https"},
        ),
        ({"socket.keepalive.enable": "true"}, {}),
    ],
)
def test_java(table: dict[str, str], expected: dict[str, str]) -> None:
    assert for_java(table) == expected


def test_java_reads_certificate_and_key_by_its_own_config_provider() -> None:
    table = {
        "ssl.certificate.location": "/tls/client.crt",
        "ssl.key.location": "client.key",
        "ssl.key.password": "${env:KEY_PASSWORD}",
    }
    provider = "org.apache.kafka.common.config.provider"
    assert for_java(table) == {
        "config.providers": "directory,env",
        "config.providers.directory.class": f"{provider}.DirectoryConfigProvider",
        "config.providers.env.class": f"{provider}.EnvVarConfigProvider",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "${directory:/tls:client.crt}",
        "ssl.keystore.key": "${directory:.:client.key}",
        "ssl.key.password": "${env:KEY_PASSWORD}",
    }
    for path in ("/a:b/c.key", "${env:KEY}"):
        with pytest.raises(ConfigurationError, match="plain path"):
            for_java({"ssl.key.location": path})


def test_java_gets_references_and_no_values() -> None:
    table = {**SASL, "sasl.username": "${file:/run/kafka:user}", "sasl.password": "${file:/run/pw}"}
    java = for_java(table)
    assert java["sasl.jaas.config"].endswith(
        'required username="${file:/run/kafka:user}" password="${directory:/run:pw}";'
    )
    assert java["config.providers"] == "file,directory"


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb"])
def test_values_that_java_would_misread_are_refused(value: str) -> None:
    table = {**SASL, "sasl.password": "${env:PASSWORD}"}
    check_java_values(table, {**SASL, "sasl.password": "good"})
    with pytest.raises(ConfigurationError, match=r"sasl\.password: .*quotation mark") as raised:
        check_java_values(table, {**SASL, "sasl.password": value})
    assert value not in str(raised.value)


def test_oauthbearer_for_each_client() -> None:
    python = for_kafka_python(OAUTH)
    assert python == {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    assert oidc_client(OAUTH) == OidcClient(
        "https://idp/token", "me", "s3cret", "kafka", (("a", "1"), ("b", "2=")), "/ca.pem"
    )
    assert "s3cret" not in repr(oidc_client(OAUTH))
    security = "org.apache.kafka.common.security.oauthbearer"
    assert for_java(OAUTH) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.login.callback.handler.class": f"{security}.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f'{security}.OAuthBearerLoginModule required clientId="me" '
        'clientSecret="s3cret" scope="kafka" extension_a="1" extension_b="2=" '
        'ssl.truststore.type="PEM" ssl.truststore.location="/ca.pem";',
    }


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({**OAUTH, "sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method: only .oidc"),
        ({**OAUTH, "sasl.oauthbearer.method": ""}, "sasl.oauthbearer.method: only .oidc"),
        ({**OAUTH, "sasl.oauthbearer.grant.type": "jwt"}, "grant.type: only .client_credentials"),
        ({**OAUTH, "sasl.oauthbearer.client.secret": ""}, "client.secret is missing"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.method is missing"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password is missing"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "sasl.username is missing"),
    ],
)
def test_incomplete_settings_are_refused(table: dict[str, str], message: str) -> None:
    for translate in (for_kafka_python, for_java):
        with pytest.raises(ConfigurationError, match=message) as raised:
            translate(table)
        assert "s3cret" not in str(raised.value)


FUNCTION = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauth.token": f"{__name__}:token",
}
HANDLER = "sasl.login.callback.handler.class"


def token() -> tuple[str, float]:
    return "text", time.time() + 60


def test_a_token_from_a_function_for_each_client() -> None:
    librdkafka = for_librdkafka(FUNCTION | {HANDLER: "com.example.Handler"})
    callback = librdkafka.pop("oauth_cb")
    assert librdkafka == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert callback("")[0] == "text"
    python = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    assert for_kafka_python(FUNCTION | {HANDLER: "com.example.Handler"}) == python
    assert oidc_client(FUNCTION) is None
    assert for_java(FUNCTION | {HANDLER: "com.example.Handler"}) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        HANDLER: "com.example.Handler",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
        "required;",
    }
    with pytest.raises(ConfigurationError, match=r"sasl.oauth.token: Spark's .* Name a Java class"):
        for_java(FUNCTION)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {**FUNCTION, "sasl.mechanism": "PLAIN"},
            "sasl.oauth.token: it needs sasl.mechanism OAUTH",
        ),
        ({**FUNCTION, "sasl.oauthbearer.method": "oidc"}, "it replaces sasl.oauthbearer.method"),
        ({**FUNCTION, "sasl.oauthbearer.scope": "a"}, "it replaces sasl.oauthbearer.scope"),
        ({**FUNCTION, "sasl.oauthbearer.config": "a"}, "sasl.oauthbearer.config: .* counterpart"),
        ({**OAUTH, HANDLER: "com.example.Handler"}, "is only for sasl.oauth.token"),
    ],
)
def test_a_function_excludes_a_token_endpoint(table: dict[str, str], message: str) -> None:
    for translate in (for_kafka_python, for_java):
        with pytest.raises(ConfigurationError, match=message):
            translate({HANDLER: "com.example.Handler", **table})


def test_the_mechanism_cannot_be_a_reference_for_java() -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.mechanism: write the value"):
        for_java({"sasl.mechanism": "${env:MECHANISM}"})


def test_names_of_scram_users_are_escaped() -> None:
    table = {**SASL, "sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": "a=b,c"}
    assert for_kafka_python(table)["sasl_plain_username"] == "a=3Db=2Cc"


def test_messages_of_clients_lose_their_secrets() -> None:
    table = {"sasl.username": "alice", "sasl.password": "xyz", "sasl.mechanisms": "${env:M}"}
    resolved = {**table, "sasl.mechanisms": "xyz-1"}
    assert hide('invalid "xyz-1", xyz of alice', table, resolved) == (
        'invalid "${env:M}", [hidden] of alice'
    )

    # librdkafka quotes what the token endpoint answers
    assert hide("it says s3cret, Basic bWU6czNjcmV0", OAUTH, OAUTH) == (
        "it says [hidden], Basic [hidden]"
    )


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.jaas.config", True),
        ("sasl.password", True),
        ("ssl.keystore.key", True),
        ("ssl.truststore.password", True),
        ("sasl.oauthbearer.client.secret", True),
        ("sasl.oauthbearer.assertion.private.key.passphrase", True),
        ("ssl.key.pem", True),
        ("ssl.key.location", False),
        ("sasl.mechanism", False),
        ("client.dns.lookup", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
