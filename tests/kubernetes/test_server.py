"""The objects at a real API server: strict server-side apply, Pod Security, upgrades, zones."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.kubernetes.api_server import ApiServer
from tests.support.kubernetes.chart_values import EVERYTHING, LIKE_KUSTOMIZE
from tests.support.prometheus.promql import DEPLOY

APPLY = ("apply", "--server-side", "--validate=strict", "-f", "-")
ZONE = "topology.kubernetes.io/zone"


def pods(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A pod of each workload, as a controller would create it. Volumes that the controller of
    StatefulSets adds are empty folders."""
    created = []
    for document in documents:
        if "template" not in document.get("spec", {}):
            continue
        template = document["spec"]["template"]
        claims = document["spec"].get("volumeClaimTemplates", [])
        data = [{"name": claim["metadata"]["name"], "emptyDir": {}} for claim in claims]
        spec = {**template["spec"], "volumes": template["spec"]["volumes"] + data}
        spec.pop("priorityClassName", None)  # such a class would have to exist
        metadata = {
            "name": f"{document['metadata']['name']}-0",
            "namespace": document["metadata"]["namespace"],
            "labels": template["metadata"]["labels"],
        }
        created.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return created


@pytest.mark.parametrize("values", [None, EVERYTHING], ids=["defaults", "everything"])
def test_the_server_accepts_all_objects_and_pods(
    server: ApiServer, namespace: str, values: dict[str, Any] | None
) -> None:
    documents = server.helm.template(values, namespace)
    output = server.kubectl(*APPLY, objects=documents)
    assert output.count("serverside-applied") == len(documents)
    assert "Warning" not in output  # of Pod Security, and of deprecated fields
    created = pods(documents)
    assert len(created) == (3 if values else 2)
    output = server.kubectl(*APPLY, objects=created)
    assert output.count("serverside-applied") == len(created)
    assert "Warning" not in output
    server.kubectl("-n", namespace, "delete", "pods", "--all", "--force", "--grace-period=0")


def test_the_server_accepts_the_objects_of_kustomize(server: ApiServer) -> None:
    server.kubectl("create", "namespace", "queryable")
    server.kubectl("label", "namespace", "queryable", "pod-security.kubernetes.io/warn=restricted")
    output = server.kubectl(
        "apply", "--server-side", "--validate=strict", "-k", str(DEPLOY / "kubernetes")
    )
    assert "Warning" not in output
    assert "statefulset.apps/queryable-backend serverside-applied" in output


def test_the_server_finds_mistakes(server: ApiServer, namespace: str) -> None:
    documents = server.helm.template(EVERYTHING, namespace)
    for kind, field in (("StatefulSet", "replica"), ("PodMonitor", "podMetricEndpoints")):
        [first, *_] = [document for document in documents if document["kind"] == kind]
        wrong = {**first, "spec": {**first["spec"], field: 3}}
        assert field in server.refusal(*APPLY, objects=[wrong])
    [pod, *_] = pods(documents)
    root = {**pod["spec"], "securityContext": {"runAsUser": 0}}
    assert 'violates PodSecurity "restricted' in server.refusal(
        *APPLY, objects=[{**pod, "spec": root}]
    )


def secret(server: ApiServer, namespace: str) -> bytes:
    stored = server.get("-n", namespace, "secret", "queryable-cluster")
    return base64.b64decode(stored["data"]["secret"])


def test_an_upgrade_keeps_the_cluster_secret(server: ApiServer, namespace: str) -> None:
    server.helm.upgrade(namespace)
    first = secret(server, namespace)
    assert len(first) >= 32
    # the volumes of a StatefulSet cannot be changed
    backend = {name: value for name, value in EVERYTHING["backend"].items() if name != "storage"}
    server.helm.upgrade(namespace, {**EVERYTHING, "backend": backend})
    assert secret(server, namespace) == first
    # while it is being changed, the file has two lines
    both = base64.b64encode(first + b"\n" + b"n" * 64).decode()
    patch = f'{{"data":{{"secret":"{both}"}}}}'
    server.kubectl("-n", namespace, "patch", "secret", "queryable-cluster", "-p", patch)
    server.helm.upgrade(namespace)
    assert secret(server, namespace) == first + b"\n" + b"n" * 64


def test_two_installations_have_different_secrets(server: ApiServer, namespace: str) -> None:
    server.helm.upgrade(namespace)
    other = f"{namespace}-2"
    server.kubectl("create", "namespace", other)
    server.helm.upgrade(other)
    assert secret(server, namespace) != secret(server, other)


def test_a_secret_of_the_user_is_left_alone(server: ApiServer, namespace: str) -> None:
    server.kubectl(
        "-n",
        namespace,
        "create",
        "secret",
        "generic",
        "queryable-cluster",
        "--from-literal=secret=mine",
    )
    server.helm.upgrade(namespace, LIKE_KUSTOMIZE)
    assert secret(server, namespace) == b"mine"
    assert "labels" not in server.get("-n", namespace, "secret", "queryable-cluster")["metadata"]


def test_a_pod_knows_the_zone_of_its_node(server: ApiServer, namespace: str) -> None:
    """A backend's rack is the label that the API server gives to the pod when it gets its node."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1", "labels": {ZONE: "zone-a"}},
    }
    server.kubectl(*APPLY, objects=[node])
    created = pods(server.helm.template(LIKE_KUSTOMIZE, namespace))
    [backend] = [pod for pod in created if pod["metadata"]["name"] == "queryable-backend-0"]
    server.kubectl(*APPLY, objects=[backend])
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "queryable-backend-0", "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/queryable-backend-0/binding"
    server.kubectl("create", "--raw", path, "-f", "-", objects=[binding])
    stored = server.get("-n", namespace, "pod", "queryable-backend-0")
    assert stored["spec"]["nodeName"] == "node-1"
    [container] = stored["spec"]["containers"]
    [rack] = [variable for variable in container["env"] if variable["name"] == "QUERYABLE_RACK"]
    assert rack["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{ZONE}']"
    assert stored["metadata"]["labels"][ZONE] == "zone-a"
