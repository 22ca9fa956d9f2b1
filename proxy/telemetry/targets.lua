--- GET /metrics/targets: where Prometheus scrapes this deployment, for its HTTP service discovery
-- (https://prometheus.io/docs/prometheus/latest/http_sd/). GET /metrics: a problem, because each
-- instance has its own metrics, and an answer would have the metrics of any one of them.

local cjson = require "cjson.safe"
local discovery = require "proxy.discovery"

local _M = {}

local PROBLEM = {
    type = "urn:queryable:metrics-of-instances",
    title = "Each instance has its own metrics",
    status = 421,
    code = "metrics-of-instances",
    detail = "Scrape the instances, and the proxy at /proxy/metrics. GET /metrics/targets lists "
        .. "all of them for Prometheus' HTTP service discovery.",
}

local function target(address, scheme, path, instance)
    return {
        targets = { address },
        labels = {
            __scheme__ = scheme,
            __metrics_path__ = path,
            queryable_instance = instance,
        },
    }
end

--- The address at which the client has reached nginx.
local function own_address(var)
    local host = var.http_host or ""
    if host:find("^%[[%x:.]+%]$") or host:find("^[%w._-]+$") then
        return host .. ":" .. var.server_port
    end
    if host:find("^%[[%x:.]+%]:%d+$") or host:find("^[%w._-]+:%d+$") then
        return host
    end
    return var.server_addr .. ":" .. var.server_port
end

local function targets(var)
    local entries = {}
    local topology = discovery.topology()
    for i, backend in ipairs(topology and topology.backends or {}) do
        local scheme = backend.tls_name and "https" or "http"
        entries[i] = target(backend.host .. ":" .. backend.port, scheme, "/metrics", backend.id)
    end
    entries[#entries + 1] = target(own_address(var), var.scheme, "/proxy/metrics", "proxy")
    return entries
end

local function send(status, content_type, document)
    ngx.status = status
    ngx.header["Content-Type"] = content_type
    ngx.header["Cache-Control"] = "no-store"
    ngx.print(cjson.encode(document))
    return ngx.exit(ngx.HTTP_OK)
end

--- Ends the request with the list of targets: the instances of the topology, and nginx.
function _M.answer()
    return send(200, "application/json", setmetatable(targets(ngx.var), cjson.array_mt))
end

--- Ends the request with a problem that names the targets.
function _M.refuse()
    local urls = {}
    for i, entry in ipairs(targets(ngx.var)) do
        local labels = entry.labels
        urls[i] = labels.__scheme__ .. "://" .. entry.targets[1] .. labels.__metrics_path__
    end
    PROBLEM.targets = urls
    return send(PROBLEM.status, "application/problem+json", PROBLEM)
end

return _M
