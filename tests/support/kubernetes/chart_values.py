"""Values of the chart for tests."""

from __future__ import annotations

from typing import Any

PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}

# the Secret that a user of kustomize creates
LIKE_KUSTOMIZE: dict[str, Any] = {"clusterSecret": {"existingSecret": "queryable-cluster"}}

EVERYTHING: dict[str, Any] = {
    "settings": {
        "QUERYABLE_AUTH": "jwt",
        "QUERYABLE_JWT_KEY_FILE": "/run/secrets/jwt/key.pem",
        "QUERYABLE_TRUSTED_PROXIES": "10.1.0.0/16",
    },
    "allowedHosts": [".internal.example.com"],
    "secretFiles": {"jwt": "queryable-jwt", "kafka": "queryable-kafka"},
    "tls": {"internalSecret": "queryable-internal-tls", "clientsSecret": "queryable-clients-tls"},
    "imagePullSecrets": [{"name": "registry"}],
    "backend": {
        "image": {"repository": "registry.example.com:5000/backend", "tag": "1.2"},
        "replicas": 5,
        "storage": {"size": "100Gi", "className": "fast"},
        "pod": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "high",
        },
    },
    "proxy": {
        "resources": {
            "requests": {"cpu": "2", "memory": "256Mi"},
            "limits": {"cpu": 2, "memory": "512Mi"},
        },
        "settings": {"QUERYABLE_PROXY_REFRESH": "0.5"},
        "service": {"type": "LoadBalancer", "annotations": {"example.com/internal": "true"}},
        "pod": {"affinity": {"nodeAffinity": {}}},
    },
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"},
        "hosts": ["queryable.example.com"],
        "tlsSecret": "queryable-ingress-tls",
    },
    "networkPolicy": {
        "enabled": True,
        "clientsFrom": [{"podSelector": {}}],
        "metricsFrom": [PROMETHEUS],
    },
    "podMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "tokenSecret": {"name": "queryable-metrics"},
    },
    "spark": {"enabled": True, "arguments": ["--master", "local[4]"]},
}
