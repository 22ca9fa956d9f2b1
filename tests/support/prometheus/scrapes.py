"""Scrapes of a running deployment, and which alerts fire if a fault goes on.

Prometheus itself would need minutes. So two scrapes become the series of a test of promtool: the
deployment is as in the first one for ten minutes, and then as in the second one for half an hour.
Counters go on growing as between the two.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from local import http
from tests.support.prometheus.promql import RULES, alerts
from tests.support.prometheus.promtool import program

Samples = dict[str, float]
"""By series, for example `up{instance="127.0.0.1:8081"}`."""

_BEFORE, _AFTER = 10, 30  # minutes
_COUNTERS = ("_total", "_bucket", "_count", "_sum")


def targets(proxy: str) -> list[tuple[str, str, str]]:
    """Address, URL and id of each target, as Prometheus finds them."""
    found = json.loads(http.get(f"{proxy}/metrics/targets").body)
    return [
        (
            address,
            f"{each['labels']['__scheme__']}://{address}{each['labels']['__metrics_path__']}",
            each["labels"]["queryable_instance"],
        )
        for each in found
        for address in each["targets"]
    ]


def scrape(of: list[tuple[str, str, str]]) -> tuple[Samples, set[str]]:
    """The samples of all targets with the labels that Prometheus adds, and the names of the
    metrics."""
    samples: Samples = {}
    names: set[str] = set()
    for address, url, instance in of:
        added = {"job": "queryable", "instance": address, "queryable_instance": instance}
        answer = http.get(url)
        samples[_series("up", added)] = float(answer.status == 200)
        if answer.status != 200:
            continue
        for family in text_string_to_metric_families(answer.body.decode()):
            names.add(family.name + ("_total" if family.type == "counter" else ""))
            for sample in family.samples:
                samples[_series(sample.name, {**sample.labels, **added})] = sample.value
    return samples, names


def firing(before: Samples, fault: Samples, folder: Path) -> set[str]:
    """The alerts that fire at the end."""
    series = [
        {"series": name, "values": _values(name, before.get(name), fault.get(name))}
        for name in sorted(before.keys() | fault.keys())
        if name.startswith(("queryable_", "up{"))
    ]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "alert_rule_test": [
                    {"alertname": name, "eval_time": f"{_BEFORE + _AFTER - 1}m", "exp_alerts": []}
                    for name in alerts()
                ],
            }
        ],
    }
    path = folder / "test.yml"
    path.write_text(yaml.safe_dump(test))
    done = subprocess.run(
        [program(), "test", "rules", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
    )  # fmt: skip
    # it expects none, and names those that fire
    found = set(re.findall(r"alertname: (\w+), time: \S+,\s+exp:\[\],\s+got:\[", done.stdout))
    assert found or done.returncode == 0, done.stdout
    return found


def _series(name: str, labels: Mapping[str, str]) -> str:
    inside = ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(labels.items()))
    return f"{name}{{{inside}}}"


def _values(name: str, before: float | None, fault: float | None) -> str:
    first = f"_x{_BEFORE}" if before is None else f"{before:g}x{_BEFORE - 1}"
    if fault is None:
        return f"{first} _x{_AFTER}"
    step = 0.0
    if name.split("{")[0].endswith(_COUNTERS):
        step = max(fault - (before or 0.0), 0.0)
    return f"{first} {fault:g}+{step:g}x{_AFTER}"
