--- GET /health/proxy: whether this worker has a topology (503 until it has one), for the platform
-- that runs nginx. GET /proxy/health: the state of this worker, and which topology each worker has.

local cjson = require "cjson.safe"
local clock = require "proxy.telemetry.clock"
local coalescer = require "proxy.reads.coalescer"
local current_deployment = require "proxy.current_deployment"
local deployments = require "proxy.admin.deployments"
local discovery = require "proxy.discovery"
local retry_budget = require "proxy.retry_budget"
local settings = require "proxy.settings"
local workers = require "proxy.admin.workers"

local _M = {}

--- null, or the number of failures and the time (ms since 1970) until which the backend is tried
-- last.
local function left_out(entry)
    return entry and {
        failures = entry.failures,
        ["until"] = math.floor((ngx.now() + entry.retry_at - clock.steady()) * 1000 + 0.5),
    } or cjson.null
end

local function describe_backends(topology, unhealthy)
    local backends = {}
    local best = topology.by_rank[1]
    for index, backend in ipairs(topology.backends) do
        backends[index] = {
            id = backend.id,
            address = backend.name,
            state = backend.state,
            usable = backend.address ~= nil and backend.rank <= best.rank,
            reads = coalescer.status(backend.name) or cjson.null,
            left_out = left_out(unhealthy.by_name[backend.name]),
        }
    end
    return setmetatable(backends, cjson.array_mt)
end

local function send(topology, document)
    ngx.status = topology and 200 or 503
    ngx.header["Content-Type"] = "application/json"
    ngx.header["Cache-Control"] = "no-store"
    if not topology then
        ngx.header["Retry-After"] = 1
    end
    document.status = topology and "ok" or "no-topology"
    ngx.print(cjson.encode(document))
    return ngx.exit(ngx.HTTP_OK)
end

--- Ends the request with the status alone.
function _M.answer_status()
    return send(discovery.topology(), {})
end

--- Ends the request with the report.
-- unhealthy: a table of passive_health; budget: of retry_budget.
function _M.answer(unhealthy, budget)
    local topology = discovery.topology()
    local age, failures, application_id = discovery.status()
    return send(topology, {
        epoch = topology and topology.epoch or cjson.null,
        age_s = age or cjson.null,
        application_id = application_id or cjson.null,
        service = current_deployment.known() or cjson.null,
        backends = topology and describe_backends(topology, unhealthy) or cjson.null,
        failures = next(failures) and failures or nil,
        pid = ngx.worker.pid(),
        refresh_s = settings.refresh,
        workers = workers.all(),
        configured = deployments.configured(),
        retries = { tokens = retry_budget.tokens(budget), denied = budget.denied },
    })
end

return _M
