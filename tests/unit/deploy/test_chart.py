"""The Helm chart's values, their schema, the templates and the product's settings fit each other.

What Helm makes of them is tested by `make chart-test` (tests/kubernetes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from backend.instance.settings import Settings, read_views
from tests.support.prometheus.promql import DEPLOY

ROOT = DEPLOY.parent
CHART = DEPLOY / "helm" / "queryable-topics"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
KUSTOMIZE = DEPLOY / "kubernetes"
USED = set(re.findall(r"\.Values\.([A-Za-z_.]+[A-Za-z_])", TEMPLATES))


def paths(value: Any, above: str = "") -> Iterator[str]:
    """Dotted names of the values that have no further names below them."""
    if not isinstance(value, dict) or not value:
        yield above
        return
    for name, inner in value.items():
        yield from paths(inner, f"{above}.{name}" if above else name)


def errors(values: dict[str, Any]) -> list[str]:
    return [str(error) for error in jsonschema_rs.validator_for(SCHEMA).iter_errors(values)]


def test_the_default_values_fit_the_schema() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    assert errors(VALUES) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replica", 3),
        ("backend.replicas", 0),
        ("backend.resources.limits", {"cpu": "1"}),
        ("settings.QUERYABLE_STANDBY_REPLICA", "1"),
        ("settings.QUERYABLE_STANDBY_REPLICAS", 1),
        ("settings.QUERYABLE_TLS_CERT_FILE", "/tmp/cert"),
        ("proxy.confD", {}),
        ("secretFiles", {"../kafka": "secret"}),
        ("backend.pod", {"hostNetwork": True}),
    ],
)
def test_the_schema_refuses_mistakes(name: str, value: Any) -> None:
    values = json.loads(json.dumps(VALUES))
    *folders, last = name.split(".")
    inner = values
    for folder in folders:
        inner = inner[folder]
    inner[last] = value
    assert errors(values)


def test_the_schema_requires_each_name_that_has_a_default() -> None:
    """So a value that is removed with null is refused, and the templates need no defaults."""

    def check(schema: dict[str, Any], values: dict[str, Any]) -> None:
        if "$ref" in schema:
            schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
        if schema.get("additionalProperties") is not False or "required" not in schema:
            return  # free names, such as those of annotations
        for name in schema["required"]:
            if isinstance(values[name], dict):
                check(schema["properties"][name], values[name])

    check(SCHEMA, VALUES)
    optional = SCHEMA["properties"].keys() - set(SCHEMA["required"])
    assert optional == {"global"}  # of Helm
    assert set(SCHEMA["required"]) == VALUES.keys()


def test_templates_use_each_value() -> None:
    unused = {
        path
        for path in paths(VALUES)
        if not any(path == used or path.startswith(f"{used}.") for used in USED)
    }
    assert unused == set()


def test_each_value_that_a_template_uses_exists() -> None:
    assert USED
    for used in USED:
        inner: Any = VALUES
        for name in used.split("."):
            assert name in inner, used
            inner = inner[name]


def test_settings_are_those_of_the_product() -> None:
    """The schema has each setting that the chart does not set itself."""
    known = {f"QUERYABLE_{name.upper()}" for name in Settings.model_fields}
    backend = (CHART / "templates" / "backend.yaml").read_text()
    by_chart = set(re.findall(r"name: (QUERYABLE_\w+)", backend)) | {"QUERYABLE_ALLOWED_HOSTS"}
    assert by_chart <= known
    assert set(SCHEMA["properties"]["settings"]["properties"]) == known - by_chart

    known = set(re.findall(r"^env (QUERYABLE_\w+);", (ROOT / "nginx.conf").read_text(), re.M))
    proxy = (CHART / "templates" / "proxy.yaml").read_text()
    by_chart = set(re.findall(r"name: (QUERYABLE_\w+)", proxy))
    assert by_chart <= known | {"QUERYABLE_TRUSTED_PROXIES"}  # of proxy/start
    # the chart's certificates have the names of instances
    by_chart.add("QUERYABLE_PROXY_TLS_NAME")
    allowed = SCHEMA["properties"]["proxy"]["properties"]["settings"]["properties"]
    assert set(allowed) == known - by_chart


def test_default_settings_and_views_are_those_of_kustomize(tmp_path: Path) -> None:
    kustomization = yaml.safe_load((KUSTOMIZE / "kustomization.yaml").read_text())
    [literals] = [g["literals"] for g in kustomization["configMapGenerator"] if "literals" in g]
    settings = dict(literal.split("=", 1) for literal in literals)
    del settings["QUERYABLE_ALLOWED_HOSTS"]  # a template has the names of the Service
    assert VALUES["settings"] == settings
    assert VALUES["views"] == (KUSTOMIZE / "views.toml").read_text()
    (tmp_path / "views.toml").write_text(VALUES["views"])
    assert read_views(tmp_path / "views.toml").views[0].name == "orders"


@pytest.mark.parametrize(
    ("copy", "original"),
    [
        (CHART / "files" / "limits.conf", ROOT / "proxy" / "limits.conf"),
        (CHART / "files" / "backend-tls.conf", ROOT / "docker" / "backend-tls.conf"),
        (CHART / "files" / "listen-tls.conf", ROOT / "docker" / "listen-tls.conf"),
        (KUSTOMIZE / "limits.conf", ROOT / "proxy" / "limits.conf"),
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_copies_are_those_of_the_repository(copy: Path, original: Path) -> None:
    """Neither Helm nor kustomize reads files outside of its folder."""
    assert copy.read_text() == original.read_text()


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`values` with `changes`, as Helm merges files of values."""
    result = dict(values)
    for name, change in changes.items():
        inner = result.get(name)
        if isinstance(inner, dict) and isinstance(change, dict):
            result[name] = merged(inner, change)
        else:
            result[name] = change
    return result


def test_the_values_of_the_page_fit_the_schema() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    examples = [
        yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    ]
    assert len(examples) >= 5
    assert [error for example in examples for error in errors(merged(VALUES, example))] == []
    named = set(re.findall(r"`((?:spark|backend|tls|podMonitor|clusterSecret)\.\w+)[=`]", page))
    named -= {"tls.crt", "tls.key"}  # entries of Secrets
    assert named
    for name in named:
        section, value = name.split(".")
        assert value in VALUES[section], name


def test_the_chart_has_the_version_of_the_product() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    [version] = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert (chart["version"], chart["appVersion"]) == (version, version)
