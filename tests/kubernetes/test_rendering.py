"""What Helm makes of the chart, without a cluster."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.instance.settings import Settings
from spark.health import main as spark_health
from spark.options import parse
from tests.support.kubernetes.api_server import run_kubectl
from tests.support.kubernetes.chart_values import EVERYTHING, LIKE_KUSTOMIZE
from tests.support.kubernetes.helm import CHART, Helm
from tests.support.kubernetes.proxy_pod import check_nginx
from tests.support.kubernetes.schemas import schema_errors
from tests.support.prometheus.promql import DEPLOY
from tests.support.security.tls import Authority

Objects = dict[str, dict[str, Any]]

_BY_HELM = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"}


def by_name(documents: list[dict[str, Any]]) -> Objects:
    """`documents` by kind and name, such as "Service queryable-proxy"."""
    objects = {f"{d['kind']} {d['metadata']['name']}": d for d in documents}
    assert len(objects) == len(documents)
    return objects


def pod(objects: Objects, name: str) -> dict[str, Any]:
    """The pod of a workload."""
    return dict(objects[name]["spec"]["template"]["spec"])


def config_maps(objects: Objects) -> dict[str, dict[str, str]]:
    return {d["metadata"]["name"]: d["data"] for d in objects.values() if d["kind"] == "ConfigMap"}


def test_helm_lint_finds_nothing(helm: Helm) -> None:
    helm.run("lint", "--strict", str(CHART))
    helm.run("lint", "--strict", str(CHART), values=EVERYTHING)


def test_the_chart_and_kustomize_have_the_same_objects(tools: Path, helm: Helm) -> None:
    built = run_kubectl(tools, "kustomize", str(DEPLOY / "kubernetes"))
    # the hash of a ConfigMap's content in its name replaces pods after a change, as the
    # annotations of the chart do
    without_hashes = re.sub(r"\b(queryable-[a-z-]+)-[a-z0-9]{10}$", r"\1", built, flags=re.M)
    assert without_hashes != built
    kustomize = by_name(list(yaml.safe_load_all(without_hashes)))
    chart = by_name(helm.template(LIKE_KUSTOMIZE))
    for document in chart.values():
        labels = document["metadata"]["labels"]
        assert labels.keys() >= _BY_HELM
        for label in _BY_HELM:
            del labels[label]
        if template := document.get("spec", {}).get("template"):
            names = template["metadata"].pop("annotations")
            assert {name.partition("/")[0] for name in names} == {"checksum"}
    assert chart.keys() == kustomize.keys()
    for name, document in chart.items():
        assert document == kustomize[name], name


def test_without_a_secret_of_the_user_the_chart_has_one_more_object(helm: Helm) -> None:
    more = by_name(helm.template()).keys() - by_name(helm.template(LIKE_KUSTOMIZE)).keys()
    assert more == {"Secret queryable-cluster"}


def test_the_objects_fit_the_schemas(helm: Helm) -> None:
    documents = helm.template({**EVERYTHING, "clusterSecret": {"existingSecret": ""}})
    kinds = {document["kind"] for document in documents}
    assert {"Secret", "Ingress", "NetworkPolicy", "PodMonitor"} <= kinds
    for document in documents:
        if document["kind"] != "PodMonitor":  # test_server.py
            assert schema_errors(document) == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"replicas": 3}, "'replicas' not allowed"),
        ({"settings": {"QUERYABLE_STANDBYS": "1"}}, "'QUERYABLE_STANDBYS' not allowed"),
        ({"settings": {"QUERYABLE_TRUSTED_PROXIES": None}}, "missing property"),
        ({"ingress": {"enabled": True}}, "ingress.hosts: name the hosts"),
        (
            {"networkPolicy": {"enabled": True}, "podMonitor": {"enabled": True}},
            "networkPolicy.metricsFrom: podMonitor.enabled needs it",
        ),
    ],
)
def test_wrong_values_are_refused_with_the_reason(
    helm: Helm, values: dict[str, Any], reason: str
) -> None:
    assert reason in helm.refusal(values)


def environment_of(objects: Objects, workload: str) -> dict[str, str]:
    """The variables of the container, without those that the cluster fills in."""
    [container] = pod(objects, workload)["containers"]
    environment: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        environment |= config_maps(objects)[source["configMapRef"]["name"]]
    return environment | {v["name"]: v["value"] for v in container["env"] if "value" in v}


@pytest.mark.parametrize("values", [LIKE_KUSTOMIZE, EVERYTHING], ids=["defaults", "everything"])
def test_a_backend_accepts_the_settings(
    helm: Helm, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = environment_of(by_name(helm.template(values)), "StatefulSet queryable-backend")
    known = {f"QUERYABLE_{name.upper()}" for name in Settings.model_fields}
    assert environment.keys() <= known
    environment["QUERYABLE_INSTANCE_ID"] = "queryable-backend-0"
    environment["QUERYABLE_ADVERTISED"] = "queryable-backend-0.queryable-backend.queryable.svc"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Settings().trusted_proxies == environment["QUERYABLE_TRUSTED_PROXIES"]


def test_names_of_the_ingress_and_of_the_user_are_allowed(helm: Helm) -> None:
    settings = config_maps(by_name(helm.template(EVERYTHING, "shop")))["queryable-settings"]
    assert settings["QUERYABLE_ALLOWED_HOSTS"].split(",") == [
        "queryable-proxy",
        "queryable-proxy.shop",
        "queryable-proxy.shop.svc",
        "queryable.example.com",
        ".internal.example.com",
    ]


def pod_annotations(helm: Helm, values: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Of the pods of each workload."""
    return {
        name: document["spec"]["template"]["metadata"]["annotations"]
        for name, document in by_name(helm.template(LIKE_KUSTOMIZE | values)).items()
        if name.startswith(("StatefulSet", "Deployment"))
    }


@pytest.mark.parametrize(
    ("values", "replaced"),
    [
        ({"views": "[views.x]\ntopic = 'x'\n"}, {"StatefulSet queryable-backend"}),
        ({"settings": {"QUERYABLE_REQUEST_LOG": "on"}}, {"StatefulSet queryable-backend"}),
        ({"allowedHosts": ["x.example"]}, {"StatefulSet queryable-backend"}),
        ({"proxy": {"limits": "# none\n"}}, {"Deployment queryable-proxy"}),
        ({"proxy": {"confD": {"a.conf": "# a\n"}}}, {"Deployment queryable-proxy"}),
        (
            {"settings": {"QUERYABLE_TRUSTED_PROXIES": "10.1.0.1"}},
            {"StatefulSet queryable-backend", "Deployment queryable-proxy"},
        ),
    ],
)
def test_a_change_replaces_the_pods_that_read_it_and_no_others(
    helm: Helm, values: dict[str, Any], replaced: set[str]
) -> None:
    before, after = pod_annotations(helm, {}), pod_annotations(helm, values)
    assert {name for name in before if before[name] != after[name]} == replaced


def test_texts_arrive_as_they_are(helm: Helm) -> None:
    """The first line of a file may be indented, and its end may have no line break."""
    text = '  # "quoted" {{ not a template }} ${file:/run/secrets/kafka/password}\n\n[views.ä]'
    values = {"views": text, "proxy": {"limits": text, "confD": {"a.conf": text}}}
    maps = config_maps(by_name(helm.template(values)))
    assert maps["queryable-views"] == {"views.toml": text}
    assert maps["queryable-proxy-limits"] == {"limits.conf": text}
    assert maps["queryable-proxy-conf-d"]["a.conf"] == text


def test_nginx_starts_with_tls_to_clients_and_to_backends(helm: Helm, tmp_path: Path) -> None:
    objects = by_name(helm.template(EVERYTHING))
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("queryable", "queryable-backend")
    files = {
        "tls.crt": certificate.read_bytes(),
        "tls.key": key.read_bytes(),
        "ca.crt": authority.ca.read_bytes(),
    }
    secrets = {"queryable-internal-tls": files, "queryable-clients-tls": files}
    maps = config_maps(objects)
    proxy = pod(objects, "Deployment queryable-proxy")
    srv = check_nginx(tmp_path / "pod", proxy, maps, maps["queryable-settings"], secrets)
    assert "listen 0.0.0.0:8443 ssl;" in (srv / "listen.conf").read_text()
    assert (srv / "tls" / "backends-ca.pem").read_bytes() == files["ca.crt"]
    assert "proxy_ssl_verify on;" in (srv / "conf.d" / "backend-tls.conf").read_text()


def test_probes_and_prometheus_use_tls_where_the_pods_do(helm: Helm) -> None:
    objects = by_name(helm.template(EVERYTHING))
    for workload in ("StatefulSet queryable-backend", "Deployment queryable-proxy"):
        [container] = pod(objects, workload)["containers"]
        probes = [container[name] for name in container if name.endswith("Probe")]
        assert {p["httpGet"]["scheme"] for p in probes if "httpGet" in p} == {"HTTPS"}
    for name in ("backend", "proxy"):
        [endpoint] = objects[f"PodMonitor queryable-{name}"]["spec"]["podMetricsEndpoints"]
        assert endpoint["scheme"] == "https"
        assert endpoint["authorization"]["credentials"]["name"] == "queryable-metrics"
    assert "https" not in json.dumps(helm.template({"podMonitor": {"enabled": True}})[-2:])


def test_secrets_are_files_of_backends_and_of_spark(helm: Helm) -> None:
    objects = by_name(helm.template(EVERYTHING))
    for workload in ("StatefulSet queryable-backend", "StatefulSet queryable-spark"):
        spec = pod(objects, workload)
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        [container] = spec["containers"]
        mounts = {m["mountPath"]: m for m in container["volumeMounts"]}
        for name in ("jwt", "kafka"):
            mount = mounts[f"/run/secrets/{name}"]
            assert volumes[mount["name"]]["secret"]["secretName"] == f"queryable-{name}"
            assert mount["readOnly"] is True


def test_the_spark_job_accepts_its_command(helm: Helm, tmp_path: Path) -> None:
    """With the views of the demo; only the folders are others."""
    (tmp_path / "views.toml").write_text((DEPLOY.parent / "views.toml").read_text())
    [container] = pod(by_name(helm.template(EVERYTHING)), "StatefulSet queryable-spark")[
        "containers"
    ]
    command = [
        text.replace("/etc/queryable/", f"{tmp_path}/").replace("/data/", f"{tmp_path}/data/")
        for text in container["command"]
    ]
    assert command[:3] == ["python", "-m", "spark.run"]
    settings = parse([*command[3:], "--conf", "spark.jars=kafka.jar"])
    assert settings.conf["spark.master"] == "local[4]"
    assert settings.views
    for probe in ("startupProbe", "livenessProbe"):
        *module, liveness, path = container[probe]["exec"]["command"]
        assert module == ["python", "-m", "spark.health"]
        (health := tmp_path / "health.json").write_text(
            json.dumps({"at": time.time(), "views": {}})
        )
        assert f"--health={path}" in container["command"]
        assert spark_health([liveness, str(health)]) == 0
