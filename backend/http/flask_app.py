"""The Flask app: endpoints that are rarely requested, with small responses."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from backend.admin.document import PATH as ADMIN
from backend.admin.instance_status import (
    instance_document,
    liveness,
    pipeline_document,
    proxy_document,
    quota_document,
    readiness,
    unreadable_document,
)
from backend.admin.page import admin_blueprint, recent_topology
from backend.cluster.group_state import GroupState
from backend.http.access import Access
from backend.http.hints import hint
from backend.http.kiqr.raw_reads import RawReads
from backend.http.kiqr.routes import register_kiqr
from backend.http.metrics.registry import CONTENT_TYPE, Metrics
from backend.http.metrics.targets import targets_document
from backend.http.openapi.build import openapi
from backend.http.representation import JSON as AS_JSON
from backend.instance.context import InstanceContext
from backend.wire.answer import etag_of
from backend.wire.view_names import described, processors_for_clients
from model.problems import BadRequest, MethodNotAllowed, NotFound, Problem
from model.view_versions import ViewVersions
from model.views import View

PAGES = (
    ("/health/live", Access.OPEN),
    ("/health/ready", Access.OPEN),
    ("/metrics", Access.METRICS),
    ("/metrics/targets", Access.METRICS),
    ("/views", Access.ANY_SCOPE),
    ("/views/{view}", Access.ANY_SCOPE),
    ("/openapi.json", Access.ANY_SCOPE),
    ("/processors", Access.ANY_SCOPE),
    ("/instance", Access.ANY_SCOPE),
    (ADMIN, Access.ANY_SCOPE),
    ("/admin/", Access.ANY_SCOPE),
    ("/admin/topology.json", Access.ANY_SCOPE),
)
"""The pages for the route table, and what a request for each needs."""

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def create_flask_app(context: InstanceContext, raw_reads: RawReads) -> Flask:
    """The Flask application of one instance. `raw_reads`: for KIQR's dialect."""
    group = context.group
    pages = Flask("backend.http", static_folder=None)
    pages.url_map.merge_slashes = False  # keys may have empty segments
    topology = recent_topology(context)
    metrics = Metrics(context, topology.get)
    api_description = orjson.dumps(
        openapi(
            context.views.values(),
            version("queryable-topics"),
            context.constants.max_key_bytes,
            context.settings.auth != "off",
        )
    )
    pages.register_blueprint(admin_blueprint(topology))
    register_kiqr(pages, context, raw_reads)
    pages.register_error_handler(Problem, _problem)
    pages.register_error_handler(HTTPException, partial(_http_exception, group))
    pages.register_error_handler(Exception, _unexpected)

    @pages.get("/views")
    def views() -> Response:
        return _json(
            {"views": [_view(context, name, view) for name, view in _listed(group.versions)]}
        )

    @pages.get("/views/<name>")
    def view(name: str) -> Response:
        named_view = group.versions.named.get(name)
        if named_view is None:
            known = ", ".join(group.versions.by_base)
            raise NotFound("view-not-found", f"View {name!r} does not exist. Views: {known}.")
        unreadable = unreadable_document(context, named_view.name)
        details = {**_schemas(named_view), **_fields(named_view), **unreadable}
        answer = _json({**_view(context, name, named_view), **details})
        for header, value in group.view_headers(named_view):
            answer.headers[header.decode()] = value.decode()
        return answer

    @pages.route("/views/<name>/<path:_rest>", methods=_METHODS)
    def unknown_resource(name: str, _rest: str) -> Response:
        # requests for existing resources of a view do not reach Flask
        if name in group.versions.named:
            raise NotFound("no-such-resource", f"Unknown path {request.path!r}.")
        return view(name)

    @pages.get("/openapi.json")
    def document() -> Response:
        return Response(api_description, content_type="application/json")

    @pages.get("/processors")
    def processors() -> Response:
        if not group.known:
            raise group.no_topology()
        revision = group.revision  # read first, because a later change gets a later revision
        built, etag = group.processors_etag
        answer = Response(status=304)
        if built != revision or not _is_known(etag):
            states = {
                **group.peers.states(),
                context.settings.instance_id: group.state,
            }
            document = processors_for_clients(group.topology.processors(states), group.versions)
            page = _json({**document, **proxy_document(context)})
            # an ETag of the content, because the next poll may reach another instance
            _, etag = etag_of(page.get_data(), AS_JSON)
            group.processors_etag = revision, etag
            if not _is_known(etag):
                answer = page
        answer.headers["ETag"] = etag.decode()
        return answer

    @pages.get("/instance")
    def instance() -> Response:
        return _json(instance_document(context))

    @pages.get("/health/live")
    def live() -> Response:
        alive, document = liveness(context)
        return _health(alive, document)

    @pages.get("/health/ready")
    def ready() -> Response:
        is_ready, document = readiness(context)
        return _health(is_ready, document)

    @pages.get("/metrics")
    def metrics_text() -> Response:
        return Response(metrics.render(), content_type=CONTENT_TYPE)

    @pages.get("/metrics/targets")
    def metrics_targets() -> Response:
        return _json(targets_document(group))

    return pages


def _listed(versions: ViewVersions) -> list[tuple[str, View]]:
    """Each view with its current version; if that is not known, with its lowest one."""
    return [
        (base, versions.named.get(base) or next(iter(by_version.values())))
        for base, by_version in versions.by_base.items()
        if by_version
    ]


def _view(context: InstanceContext, name: str, view: View) -> dict[str, Any]:
    """The description of a view. `name`: the name of the view in requests."""
    placed = context.group.topology.views.get(view.name)
    return {
        **described(view.description(), name, context.group.versions),
        "partitions": placed.partitions if placed else None,
        "hash": view.hash,
        "routed_encodings": view.routed_encodings,
        **({"scans": view.scans} if view.scans else {}),
        **({"description": view.meaning} if view.meaning else {}),
        **quota_document(view),
        **pipeline_document(context, view.name),
    }


def _schemas(view: View) -> dict[str, Any]:
    """The schemas of one view in full; schemas of framed records are in the registry."""
    codecs = {"key": view.key_codec, "value": view.value_codec}
    schemas = {
        part: document
        for part, codec in codecs.items()
        if (document := codec.schema_document) is not None
    }
    return {"schemas": schemas} if schemas else {}


def _fields(view: View) -> dict[str, Any]:
    """The declared fields of one view, with their types as in views.toml, what declares those that
    are not there, and its indexes."""
    fields = {field.name: field.text for field in view.fields}
    declared_by = {field.name: field.declared_by for field in view.fields if field.declared_by}
    indexes = {index.name: [field.name for field in index.fields] for index in view.indexes}
    tables = {"fields": fields, "declared_by": declared_by, "indexes": indexes}
    return {name: table for name, table in tables.items() if table}


def _is_known(etag: bytes) -> bool:
    """Whether the client has the page with this ETag."""
    return request.if_none_match.contains(etag.decode().strip('"'))


def _json(document: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, content_type="application/json")


def _health(is_healthy: bool, document: dict[str, Any]) -> Response:
    answer = _json(document, 200 if is_healthy else 503)
    if not is_healthy:
        answer.headers["Retry-After"] = "1"
    return answer


def _problem(problem: Problem) -> Response:
    answer = Response(problem.body(), problem.status)
    for name, value in problem.headers():
        answer.headers[name.decode()] = value.decode()
    return answer


def _http_exception(group: GroupState, error: HTTPException) -> Response:
    if error.code == 404:
        meant = hint(request.path, group.versions.named.values())
        return _problem(NotFound("no-such-resource", f"Unknown path {request.path!r}. {meant}"))
    if error.code == 405:
        allowed = sorted(getattr(error, "valid_methods", None) or ["GET"])
        return _problem(MethodNotAllowed(request.method, ", ".join(allowed)))
    if error.code is not None and error.code < 500:
        problem = BadRequest("bad-request", error.description or error.name)
        problem.status = error.code
        return _problem(problem)
    return _unexpected(error)


def _unexpected(_: Exception) -> Response:
    from flask import current_app

    current_app.logger.exception("%s %s", request.method, request.path)
    return _problem(Problem("internal-error", "Unexpected error. See the log of the instance."))
