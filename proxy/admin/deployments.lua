--- Which deployment each configured backend belongs to, for /proxy/health. Several deployments
-- behind a proxy should belong to one service, which says which one is current. Without a service,
-- the epochs of the deployments decide which topology the proxy uses.

local addresses = require "proxy.addresses"
local cjson = require "cjson.safe"
local current_deployment = require "proxy.current_deployment"
local processors = require "proxy.processors"
local settings = require "proxy.settings"
local shared_topology = require "proxy.discovery.shared_topology"

local _M = {}

local shared = ngx.shared.queryable_topics

local KEY, ANSWERS = "configured", "configured_answers"
local DUE, ASKING = "configured_asked", "configured_asking"
local INTERVAL_S = math.max(3, settings.refresh)
-- Asking one backend takes less time. If a worker ends while it asks, no other worker asks for this
-- time
local MAX_ASKING_S = 15
local MAX_SEEDS = 32
local MAX_NAME_BYTES = 249

--- Timers of this module that run at the same time in a worker. See lua_max_running_timers.
_M.MAX_TIMERS = 1

local function name_or_nil(value)
    return type(value) == "string" and value:sub(1, MAX_NAME_BYTES) or nil
end

--- Asks a backend. Returns {address, id, service, etag}: id is its application id, and service is
-- the name of its service. Both may be nil: older backends report neither. Returns nil and an error
-- if the backend does not answer. before: its previous answer, or nil.
local function ask(seed, before)
    local address = addresses.choose(seed.host, seed.port, before and before.address)
    if not address then
        return nil, "no address for " .. seed.host
    end
    local etag = before and before.address == address and before.etag or nil
    local response, err = processors.get(address, seed.port, seed.tls_name, etag)
    if not response then
        return nil, err
    end
    if response.status == 304 then
        return before
    end
    local document = cjson.decode(response.body)
    if type(document) ~= "table" then
        return nil, "invalid topology"
    end
    local service = document.service
    -- a backend of the deployment in use may be cut off from Kafka, and not know it
    current_deployment.learn(service, document.application_id)
    return {
        address = address,
        id = name_or_nil(document.application_id),
        service = type(service) == "table" and name_or_nil(service.name) or nil,
        etag = response.headers.etag,
    }
end

local function ask_all()
    local configured, answers = {}, cjson.decode(shared:get(ANSWERS) or "") or {}
    for i = 1, math.min(#settings.seeds, MAX_SEEDS) do
        shared_topology.hold(ASKING, MAX_ASKING_S)
        local seed = settings.seeds[i]
        local server = seed.host .. ":" .. seed.port
        local answer, err = ask(seed, answers[server])
        answers[server] = answer or answers[server]
        local last = answers[server] or {}
        configured[i] = {
            address = server,
            scheme = seed.tls_name and "https" or "http",
            application_id = last.id or cjson.null,
            service = last.service or cjson.null,
            error = err,
        }
    end
    shared:set(KEY, cjson.encode(setmetatable(configured, cjson.array_mt)))
    shared:set(ANSWERS, cjson.encode(answers))
end

--- Asks the configured backends, in one worker at a time. That may take longer than the interval.
function _M.check(premature)
    if premature or not shared_topology.take(DUE, INTERVAL_S * 0.9)
        or not shared_topology.take(ASKING, MAX_ASKING_S)
    then
        return
    end
    local ok, err = pcall(ask_all)
    shared_topology.release(ASKING)
    if not ok then
        ngx.log(ngx.ERR, "cannot ask the configured backends: ", err)
    end
end

--- Call when a worker starts. Sets a timer only if several backends are configured: a single
-- backend belongs to a single deployment.
function _M.init_worker()
    if #settings.seeds > 1 then
        ngx.timer.every(INTERVAL_S, _M.check)
    end
end

--- {address, scheme, application_id, service, error} of each configured backend; null until the
-- backends were asked. If a backend does not answer, its last answer is shown.
function _M.configured()
    return cjson.decode(shared:get(KEY) or "") or cjson.null
end

return _M
