--- GET /proxy/health: what this worker knows. 503 while it has no map.

local batcher = require "proxy.batcher"
local cjson = require "cjson.safe"
local discovery = require "proxy.discovery"
local retry_budget = require "proxy.retry_budget"

local _M = {}

--- null, or how often it failed and until when (ms since 1970) others are asked before it.
local function left_out_of(entry)
    return entry and {
        failures = entry.failures,
        ["until"] = math.floor(entry.till * 1000 + 0.5),
    } or cjson.null
end

local function backends_of(map, failing)
    local backends = {}
    local best = map.ordered[1]
    for index, backend in ipairs(map.backends) do
        backends[index] = {
            id = backend.id,
            address = backend.name,
            state = backend.state,
            usable = backend.address ~= nil and backend.rank <= best.rank,
            reads = batcher.report(backend.name) or cjson.null,
            left_out = left_out_of(failing.by_name[backend.name]),
        }
    end
    return setmetatable(backends, cjson.array_mt)
end

--- Ends the request with the report.
-- failing, budget: the router's, of `passive_health` and `retry_budget`.
function _M.answer(failing, budget)
    local map = discovery.map()
    local age, failures = discovery.report()
    ngx.status = map and 200 or 503
    ngx.header["Content-Type"] = "application/json"
    ngx.header["Cache-Control"] = "no-store"
    if not map then
        ngx.header["Retry-After"] = 1
    end
    ngx.print(cjson.encode {
        status = map and "ok" or "no-topology",
        epoch = map and map.epoch or cjson.null,
        age_s = age or cjson.null,
        backends = map and backends_of(map, failing) or cjson.null,
        failures = next(failures) and failures or nil,
        retries = { tokens = retry_budget.tokens(budget), denied = budget.denied },
    })
    return ngx.exit(ngx.HTTP_OK)
end

return _M
