"""The queries in deploy/, and the metrics that they name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "queryable.json"


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def dashboard_queries() -> list[str]:
    """The queries of the dashboard, with values instead of Grafana's variables."""
    return [
        target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")
        for panel in panels()
        for target in panel["targets"]
    ]


def metrics_in(query: str) -> set[str]:
    """The names of the metrics, without the suffixes of histograms."""
    without_strings = re.sub(r'"[^"]*"', '""', query)
    names = re.findall(r"\b(?:queryable|process)_\w+\b(?!\s*[=!])", without_strings)
    # labels of `by`, and of `{queryable_instance="…"}`
    return {re.sub(r"_(bucket|sum|count)$", "", n) for n in names if n != "queryable_instance"}
