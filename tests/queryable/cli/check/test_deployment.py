"""Findings about the views file."""

from __future__ import annotations

from pathlib import Path

from queryable.cli.check.deployment import check_deployment


def test_a_mistake_in_a_derived_view_is_found_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "views.toml"
    file.write_text(
        '[views.hosts.derive]\nfrom = "weblog"\nfields = { client = "string" }\n'
        'key = "client"\nsum = "client"\n'
    )
    finding = next(check_deployment(file, "127.0.0.1:1", sample_size=1, timeout=0.1))
    assert finding.status == "wrong"
    assert 'line 5, [views.hosts.derive], sum: "client" is a string' in finding.message
