"""Scrapes of a running deployment, and which alerts fire if a fault goes on.

Prometheus itself would need minutes. So two scrapes become the series of a test of promtool: the
deployment is as in the first one for ten minutes, and then as in the second one for half an hour.
Counters continue to grow as between the two scrapes, as if these were five minutes apart. With a
third scrape, times and lags continue to grow as fast as between the second and the third.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from local import http
from local.waiting import wait_until
from tests.support.prometheus.promql import RULES, alerts
from tests.support.prometheus.promtool import program

Target = tuple[str, str, str]
"""Address, URL and id of a target, as Prometheus finds them."""

_TIMEOUT = 2.0  # s for one target; a stopped process does not answer
_BEFORE, _BETWEEN, _AFTER = 10, 5, 30  # minutes
_COUNTERS = ("_total", "_bucket", "_count", "_sum")
_TIMESTAMP = "_timestamp_seconds"
_AGES = ("_staleness_seconds", "_open_transaction_seconds", _TIMESTAMP)
_TIMES = (*_AGES, "_seconds_total")
_LAGS = ("_lag_records",)
# Only a fault lets an age grow. Without a fault, the age is reset again and again, and two scrapes
# find arbitrary values.
_GROWS = 0.5  # s per s
DISTANCE = 3.0  # s between two scrapes of a fault; an age that is reset grows less than that


@dataclass(frozen=True)
class Scrape:
    """The samples of all targets by series, for example `up{instance="127.0.0.1:8081"}`, and the
    names of the metrics. `at`: when, in s since 1970."""

    at: float
    samples: Mapping[str, float]
    names: frozenset[str]

    def of(self, name: str, **labels: str) -> list[float]:
        """The samples of this name that have these labels."""
        wanted = [f"{label}={json.dumps(value)}" for label, value in labels.items()]
        return [
            value
            for series, value in self.samples.items()
            if series.partition("{")[0] == name and all(each in series for each in wanted)
        ]


def targets(entry: str) -> list[Target]:
    """The targets that nginx or an instance lists for Prometheus. `entry`: its URL."""
    found = json.loads(http.get(f"{entry}/metrics/targets").body)
    return [
        (
            address,
            f"{each['labels']['__scheme__']}://{address}{each['labels']['__metrics_path__']}",
            each["labels"]["queryable_instance"],
        )
        for each in found
        for address in each["targets"]
    ]


def scrape(of: list[Target]) -> Scrape:
    """All targets, with the labels that Prometheus adds."""
    at = time.time()
    samples: dict[str, float] = {}
    names: set[str] = set()
    for address, url, instance in of:
        added = {"job": "queryable", "instance": address, "queryable_instance": instance}
        answer = http.get(url, _TIMEOUT)
        samples[_series("up", added)] = float(answer.status == 200)
        if answer.status != 200:
            continue
        for family in text_string_to_metric_families(answer.body.decode()):
            names.add(family.name + ("_total" if family.type == "counter" else ""))
            for sample in family.samples:
                samples[_series(sample.name, {**sample.labels, **added})] = sample.value
    return Scrape(at, samples, frozenset(names))


def when(
    of: list[Target], condition: Callable[[Scrape], bool], timeout: float, what: str
) -> Scrape:
    """The first scrape for which the condition is true."""

    def found() -> Scrape | None:
        scraped = scrape(of)
        return scraped if condition(scraped) else None

    result = wait_until(found, timeout, what)
    assert result is not None
    return result


def later(of: list[Target], first: Scrape) -> Scrape:
    """A second scrape of the same fault."""
    wait_until(lambda: time.time() - first.at >= DISTANCE, DISTANCE + 1, "the next scrape")
    return scrape(of)


def firing(before: Scrape, fault: Scrape, folder: Path, later: Scrape | None = None) -> set[str]:
    """The alerts that fire at the end."""
    series = [
        {"series": name, "values": _values(name, before, fault, later)}
        for name in sorted(before.samples.keys() | fault.samples.keys())
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


def _values(series: str, before: Scrape, fault: Scrape, later: Scrape | None) -> str:
    """In promtool's notation: a number, what is added in each minute, and the number of minutes."""
    name = series.partition("{")[0]
    # promtool's clock begins at 0
    shift = 60.0 if name.endswith(_TIMESTAMP) else 0.0
    first, second = (
        None if value is None else value - each.at * bool(shift)
        for each, value in ((each, each.samples.get(series)) for each in (before, fault))
    )
    text = _line(first, shift, 0, _BEFORE)
    if second is None:
        return f"{text} _x{_AFTER}"
    step = shift
    if name.endswith(_COUNTERS):
        step = max(second - (first or 0.0), 0.0) / _BETWEEN
    if later is not None and name.endswith((*_TIMES, *_LAGS)):
        step = shift + 60 * _growth(series, name, fault, later)
    return f"{text} {_line(second, step, shift * _BEFORE, _AFTER)}"


def _line(value: float | None, step: float, offset: float, minutes: int) -> str:
    if value is None:
        return f"_x{minutes}"
    return f"{value + offset:.12g}{step:+.12g}x{minutes - 1}"


def _growth(series: str, name: str, fault: Scrape, later: Scrape) -> float:
    """What is added in each second of the fault to a time or a lag. Less than the second is added
    to a timestamp whose age grows."""
    one, two = (each.samples.get(series) for each in (fault, later))
    if one is None or two is None:
        return 0.0
    growth = (two - one) / (later.at - fault.at)
    if name.endswith(_TIMESTAMP):
        growth -= 1
    return growth if abs(growth) >= _GROWS or not name.endswith(_AGES) else 0.0
