--- GET /proxy/health: what this worker knows. 503 while it has no map.

local cjson = require "cjson.safe"
local discovery = require "proxy.discovery"

local _M = {}

local function backends_of(map)
    local backends = {}
    local best = map.usable[1]
    for index, backend in ipairs(map.backends) do
        backends[index] = {
            id = backend.id,
            address = (backend.address or backend.host) .. ":" .. backend.port,
            state = backend.state,
            usable = backend.address ~= nil and backend.rank <= best.rank,
        }
    end
    return setmetatable(backends, cjson.array_mt)
end

--- Ends the request with the report.
function _M.answer()
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
        backends = map and backends_of(map) or cjson.null,
        failures = next(failures) and failures or nil,
    })
    return ngx.exit(ngx.HTTP_OK)
end

return _M
