--- GET /metrics/targets: where Prometheus scrapes this deployment, for its HTTP service discovery
-- (https://prometheus.io/docs/prometheus/latest/http_sd/). GET /metrics: a problem, because each
-- instance has its own metrics, and an answer would have the metrics of any one of them.

local cjson = require "cjson.safe"
local discovery = require "proxy.discovery"
local http_client = require "proxy.http_client"

local _M = {}

-- backends that are asked for their list, one after the other, and the time that each one has
local MAX_ASKED = 3
local ASKING_S = 1

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

--- The instances of the topology.
local function targets_of_topology(backends)
    local entries = {}
    for i, backend in ipairs(backends) do
        local scheme = backend.tls_name and "https" or "http"
        entries[i] = target(backend.host .. ":" .. backend.port, scheme, "/metrics", backend.id)
    end
    return entries
end

--- The list of a backend, which also has the instances that are lost; nil if none answers in time.
-- The backend checks the client's token again.
local function targets_of_backend(by_rank, var)
    local lines = { "Accept: application/json" }
    if var.http_authorization then
        lines[2] = "Authorization: " .. var.http_authorization
    end
    local options = { seconds = ASKING_S, purpose = "targets" }
    for i = 1, math.min(#by_rank, MAX_ASKED) do
        local backend = by_rank[i]
        local response = http_client.get(
            backend.address, backend.port, "/metrics/targets", lines, backend.tls_name, options)
        local entries = response and response.status == 200 and cjson.decode(response.body)
        if type(entries) == "table" and type(entries[1]) == "table" and entries[1].targets then
            return entries
        end
    end
end

local function targets(var, instances)
    instances[#instances + 1] = target(own_address(var), var.scheme, "/proxy/metrics", "proxy")
    return instances
end

local NO_TOPOLOGY = { backends = {}, by_rank = {} }

local function known()
    return discovery.topology() or NO_TOPOLOGY
end

local function send(status, content_type, document)
    ngx.status = status
    ngx.header["Content-Type"] = content_type
    ngx.header["Cache-Control"] = "no-store"
    ngx.print(cjson.encode(document))
    return ngx.exit(ngx.HTTP_OK)
end

--- Ends the request with the list of targets: the instances, and nginx.
function _M.answer()
    local topology = known()
    local instances = targets_of_backend(topology.by_rank, ngx.var)
        or targets_of_topology(topology.backends)
    return send(200, "application/json", setmetatable(targets(ngx.var, instances), cjson.array_mt))
end

--- Ends the request with a problem that names the targets.
function _M.refuse()
    local urls = {}
    for i, entry in ipairs(targets(ngx.var, targets_of_topology(known().backends))) do
        local labels = entry.labels
        urls[i] = labels.__scheme__ .. "://" .. entry.targets[1] .. labels.__metrics_path__
    end
    PROBLEM.targets = urls
    return send(PROBLEM.status, "application/problem+json", PROBLEM)
end

return _M
