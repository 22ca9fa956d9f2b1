--- Which deployment each configured backend belongs to, for /proxy/health. All backends behind a
-- proxy should be of one deployment: the proxy uses one topology, and with backends of two it
-- depends on their epochs which one that is.

local cjson = require "cjson.safe"
local processors = require "proxy.processors"
local resolver = require "proxy.resolver"
local settings = require "proxy.settings"

local _M = {}

local shared = ngx.shared.queryable_topics

local KEY, ANSWERS = "configured", "configured_answers"
local INTERVAL_S = math.max(3, settings.refresh)
local MAX_SEEDS = 32
local MAX_NAME_BYTES = 249

--- Timers of this module that run at the same time in a worker. See lua_max_running_timers.
_M.MAX_TIMERS = 1

--- The application id of the backend, or nil and an error. before: {address, id, etag}, its answer
-- before this one, or nil. The third value is that of now.
local function application_of(seed, before)
    local address = resolver.addresses(seed.host, ngx.now())[1]
    if not address then
        return nil, "no address for " .. seed.host
    end
    local etag = before and before.address == address and before.etag or nil
    local response, err = processors.get(address, seed.port, seed.tls_name, etag)
    if not response then
        return nil, err
    end
    if response.status == 304 then
        return before.id, nil, before
    end
    local document = cjson.decode(response.body)
    etag = response.headers.etag
    local name = type(document) == "table" and document.application_id
    -- older backends do not say it
    name = type(name) == "string" and name:sub(1, MAX_NAME_BYTES) or nil
    return name, nil, etag and { address = address, id = name, etag = etag }
end

local function ask_all()
    local configured, answers = {}, cjson.decode(shared:get(ANSWERS) or "") or {}
    for i = 1, math.min(#settings.seeds, MAX_SEEDS) do
        local seed = settings.seeds[i]
        local server = seed.host .. ":" .. seed.port
        local name, err, answer = application_of(seed, answers[server])
        answers[server] = answer
        configured[i] = { address = server, application_id = name or cjson.null, error = err }
    end
    shared:set(KEY, cjson.encode(setmetatable(configured, cjson.array_mt)))
    shared:set(ANSWERS, cjson.encode(answers))
end

--- Asks the configured backends, in one worker at a time.
function _M.check(premature)
    if premature or not shared:add("configured_asked", true, INTERVAL_S * 0.9) then
        return
    end
    local ok, err = pcall(ask_all)
    if not ok then
        ngx.log(ngx.ERR, "cannot ask the configured backends: ", err)
    end
end

--- Call when a worker starts, if several backends are configured: one is of one deployment.
function _M.init_worker()
    if #settings.seeds > 1 then
        ngx.timer.every(INTERVAL_S, _M.check)
    end
end

--- {address, application_id, error} of each configured backend; null until they were asked.
function _M.configured()
    return cjson.decode(shared:get(KEY) or "") or cjson.null
end

return _M
