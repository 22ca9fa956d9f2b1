"""The manifests fit Kubernetes' schemas, the settings and each other."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.instance.settings import Settings, read_views
from tests.support.kubernetes.proxy_pod import check_nginx
from tests.support.kubernetes.schemas import schema_errors
from tests.support.prometheus.promql import DEPLOY

FOLDER = DEPLOY / "kubernetes"
OBJECTS: list[dict[str, Any]] = [
    each
    for name in ("backend.yaml", "proxy.yaml")
    for each in yaml.safe_load_all((FOLDER / name).read_text())
]
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
WORKLOADS = [each for each in OBJECTS if each["kind"] in ("StatefulSet", "Deployment")]


def name_of(each: dict[str, Any]) -> str:
    return f"{each['kind']} {each['metadata']['name']}"


@pytest.mark.parametrize("each", OBJECTS, ids=name_of)
def test_each_object_fits_its_schema(each: dict[str, Any]) -> None:
    assert schema_errors(each) == []


def test_the_schemas_find_mistakes() -> None:
    [stateful] = [each for each in WORKLOADS if each["kind"] == "StatefulSet"]
    misspelt = json.loads(json.dumps(stateful))
    misspelt["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    assert schema_errors(misspelt)
    wrong_type = json.loads(json.dumps(stateful))
    wrong_type["spec"]["replicas"] = "three"
    assert schema_errors(wrong_type)


def test_kustomize_builds_objects_that_fit() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not there")
    done = subprocess.run(
        [kubectl, "kustomize", str(FOLDER)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) == len(OBJECTS) + len(KUSTOMIZATION["configMapGenerator"])
    assert [error for each in built for error in schema_errors(each)] == []
    assert {each["metadata"]["namespace"] for each in built} == {KUSTOMIZATION["namespace"]}


@pytest.mark.parametrize("each", WORKLOADS, ids=name_of)
def test_pods_have_probes_limits_and_few_rights(each: dict[str, Any]) -> None:
    pod = each["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["resources"]["limits"]["memory"]
        assert {"livenessProbe", "readinessProbe"} <= container.keys()
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("each", WORKLOADS, ids=name_of)
def test_names_refer_to_what_exists(each: dict[str, Any]) -> None:
    labels = each["spec"]["template"]["metadata"]["labels"]
    for other in OBJECTS:
        if other["metadata"]["name"] == each["metadata"]["name"]:
            selector = other["spec"]["selector"]
            assert (selector.get("matchLabels") or selector) == labels, name_of(other)
    pod = each["spec"]["template"]["spec"]
    generated = {generator["name"] for generator in KUSTOMIZATION["configMapGenerator"]}
    claims = {c["metadata"]["name"] for c in each["spec"].get("volumeClaimTemplates", ())}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for volume in volumes.values():
        if "configMap" in volume:
            assert volume["configMap"]["name"] in generated
        if "secret" in volume:
            name = volume["secret"]["secretName"]
            assert f"create secret generic {name} " in (FOLDER / "kustomization.yaml").read_text()
    for container in pod["containers"]:
        assert {m["name"] for m in container["volumeMounts"]} <= volumes.keys() | claims
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            check = container.get(probe, {})
            for kind in ("httpGet", "tcpSocket"):
                assert check.get(kind, {}).get("port", "http") in ports
        for each_from in container.get("envFrom", ()):
            assert each_from["configMapRef"]["name"] in generated


def test_nginx_starts_with_the_files_of_the_config_maps(tmp_path: Path) -> None:
    """The command of the container, with Debian's nginx and with the folders below `tmp_path`."""
    config_maps = {
        generator["name"]: {
            Path(name).name: (FOLDER / name).read_text() + "# of the map\n"
            for name in generator["files"]
        }
        for generator in KUSTOMIZATION["configMapGenerator"]
        if "files" in generator
    }
    [proxy] = [each for each in WORKLOADS if each["kind"] == "Deployment"]
    pod = proxy["spec"]["template"]["spec"]
    settings = {"QUERYABLE_TRUSTED_PROXIES": "10.1.0.0/16"}
    srv = check_nginx(tmp_path, pod, config_maps, settings)
    assert "set_real_ip_from 10.1.0.0/16;" in (srv / "trusted_proxies.conf").read_text()
    for path in (srv / "limits.conf", srv / "conf.d" / "deployment.conf"):
        assert path.read_text().endswith("# of the map\n")


def test_settings_and_views_are_those_of_backends() -> None:
    known = {f"QUERYABLE_{name.upper()}" for name in Settings.model_fields}
    [backend] = [each for each in WORKLOADS if each["kind"] == "StatefulSet"]
    [container] = backend["spec"]["template"]["spec"]["containers"]
    named = {each["name"] for each in container["env"]} - {"POD_NAME", "POD_NAMESPACE"}
    for generator in KUSTOMIZATION["configMapGenerator"]:
        named |= {literal.partition("=")[0] for literal in generator.get("literals", ())}
    assert named <= known
    assert read_views(FOLDER / "views.toml").views[0].name == "orders"
    # the service that names the instances
    assert backend["spec"]["serviceName"] == "queryable-backend"
    assert any("$(POD_NAME).queryable-backend." in e.get("value", "") for e in container["env"])
