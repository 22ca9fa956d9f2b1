"""Rules, runbooks and dashboard: every query is valid, and names metrics that exist.

`tests/system/deploy/faults/` has running deployments.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.support.prometheus.promql import (
    DEPLOY,
    RULES,
    alerts,
    dashboard_queries,
    metrics_in,
    panels,
    rules,
)
from tests.support.prometheus.promtool import promtool
from tests.support.prometheus.runbooks import PARTS, examples_in

ROOT = DEPLOY.parent
TESTS = DEPLOY / "prometheus" / "rules_test.yml"
RUNBOOKS = ROOT / "docs" / "runbooks"
# its tests compare it with scrapes
REFERENCE = (ROOT / "docs/reference/metrics.md").read_text()


def test_configuration_and_rules_are_valid() -> None:
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    promtool("check", "rules", RULES)


def test_each_alert_fires_in_its_case_and_not_before() -> None:
    promtool("test", "rules", TESTS)
    expected: dict[str, set[bool]] = {}
    for case in yaml.safe_load(TESTS.read_text())["tests"]:
        for each in case["alert_rule_test"]:
            expected.setdefault(each["alertname"], set()).add(bool(each["exp_alerts"]))
    assert expected == {name: {False, True} for name in alerts()}


@pytest.mark.parametrize("name", alerts())
def test_each_alert_has_a_runbook(name: str) -> None:
    rule = alerts()[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    base = "{{ with $externalLabels.queryable_docs }}{{ . }}/{{ end }}"
    assert rule["annotations"]["runbook_url"] == f"{base}docs/runbooks/{name}.md"
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    assert "**Effect:**" in page
    assert tuple(re.findall(r"^## (.*)$", page, re.M)) == PARTS
    for part in PARTS[1:]:
        assert f"## {part}\n- " in page
    assert len(page.splitlines()) <= 45
    assert examples_in(name), "no command to run first"
    assert (
        f"[{name}]({name}.md) ({rule['labels']['severity']})"
        in (RUNBOOKS / "README.md").read_text()
    )


def test_each_runbook_is_that_of_an_alert() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == {"README", *alerts()}


@pytest.mark.parametrize("query", [*(rule["expr"] for rule in rules()), *dashboard_queries()])
def test_every_metric_in_a_query_is_in_the_reference(query: str) -> None:
    for name in metrics_in(query):
        of_process = name in ("process_cpu_seconds_total", "process_resident_memory_bytes")
        assert of_process or f"| `{name}` |" in REFERENCE, name


def test_the_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    queries = dashboard_queries()
    assert len(queries) > 40
    recorded = [{"record": f"q:{number}", "expr": q} for number, q in enumerate(queries)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", path)


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_grafana_finds_data_source_and_dashboard() -> None:
    folder = DEPLOY / "grafana" / "provisioning"
    [source] = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"]
    assert re.fullmatch(r"http://\w+:9090", source["url"])
    [provider] = yaml.safe_load((folder / "dashboards/queryable.yaml").read_text())["providers"]
    assert provider["options"]["path"] == "/etc/grafana/dashboards"
