"""The methods that both clients have, one line per call. What a call does is in its module in
`protocol/calls/`."""

from __future__ import annotations

from queryable.client.methods import method, rows_method
from queryable.client.protocol.calls import (
    aggregate,
    append,
    batch,
    changes,
    count,
    deployments,
    instances,
    metadata,
    pipelines,
    point,
    scan,
    sql,
    time_ranges,
    top,
    view_versions,
)


class ApiMethods:
    """The calls of the API, as methods of `Client` and `AsyncClient`."""

    get = method(point.get)
    get_many = method(batch.get_many)
    top = method(top.top)
    aggregate = method(aggregate.aggregate)
    count = method(count.count)
    append = method(append.append)
    views = method(metadata.views)
    _describe = method(metadata.view)
    topology = method(metadata.topology)
    switch = method(view_versions.switch)
    rollback = method(view_versions.rollback)
    drop = method(view_versions.drop)
    view_versions = method(view_versions.view_versions)
    pipeline = method(pipelines.pipeline)
    pipeline_command = method(pipelines.pipeline_command)
    drain = method(instances.drain)
    undrain = method(instances.undrain)
    rebuild = method(instances.rebuild)
    proxy_health = method(deployments.proxy_health)
    deployment = method(deployments.deployment)
    switch_deployment = method(deployments.switch_deployment)
    rollback_deployment = method(deployments.rollback_deployment)
    scan_dated = rows_method(scan.scan_dated)
    scan = rows_method(scan.scan)
    windows = rows_method(time_ranges.windows)
    sessions = rows_method(time_ranges.sessions)
    versions = rows_method(time_ranges.versions)
    changes = rows_method(changes.changes)
    sql = rows_method(sql.sql)
