--- Keeps the map: each worker's timer reads /processors, and keeps the last good one.
-- Two verbs: `init_worker()`, and `note()` for every epoch that a response carries. The map lies in
-- a shared dict too, which outlives the workers: after a reload, the new ones know it at once.

local cjson = require "cjson.safe"
local http_client = require "proxy.http_client"
local resolver = require "proxy.resolver"
local settings = require "proxy.settings"
local topology = require "proxy.topology"

local _M = {}

local shared = ngx.shared.queryable_topics

local PATH = "/processors"
local NO_MAP_YET_S = 0.2
local FOLLOW_AT_MOST_EVERY_S = 0.1
local ASKED_AT_ONCE = 4
local ADDRESSES_ASKED = 4
-- how often a worker looks whether it is time to read the map
local TICK_S = 0.1

--- Timers of this module that may run at a time in a worker: the refresh under way, a tick that
-- finds it so, and one that follows an epoch. See nginx.conf, lua_max_running_timers.
_M.MOST_TIMERS = 3

-- the worker's own: the map in force, the table it was built from, and where the next one is read
local current, source
local confirmed_at
local failures = {}
-- when the map is to be read again, and whether that, or the following of an epoch, is under way
local due, is_refreshing, is_following = 0, false, false
-- who gave the last map: asked first next time, as instances differ in what they say of states
local last_source
-- its ETag, and the address that gave it: revisions are an instance's own
local etag, etag_of

local function name_of(backend)
    return backend.host .. ":" .. backend.port
end

--- IP addresses by host name, for all processors of a table.
local function addresses_of(processors)
    local addresses, now = {}, ngx.now()
    for _, processor in ipairs(processors.processors) do
        if type(processor.host) == "string" then
            addresses[processor.host] = resolver.addresses(processor.host, now)[1]
        end
    end
    return addresses
end

local function use(processors, addresses)
    local map, err = topology.build(processors, addresses)
    if not map then
        return nil, err
    end
    if not current or current.epoch ~= map.epoch then
        ngx.log(ngx.NOTICE, "topology ", map.epoch, ": ", #map.backends, " backends")
    end
    current = map
    source = { processors = processors, addresses = addresses }
    return true
end

--- Takes the map that another worker, or the one before a reload, has found, if it is newer.
local function adopt_shared()
    local epoch = shared:get("epoch")
    if not topology.is_newer(epoch, current and current.epoch) then
        return false
    end
    local kept = cjson.decode(shared:get("map") or "")
    if not kept or not use(kept.processors, kept.addresses) then
        return false
    end
    etag = nil
    return true
end

local function share()
    -- the map first: whoever sees the epoch shall find its map, or a newer one
    local ok, err = shared:set("map", cjson.encode(source))
    if ok then
        ok, err = shared:set("epoch", current.epoch)
    end
    if not ok then
        ngx.log(ngx.ERR, "topology not shared with other workers: ", err)
    end
end

--- Reads the map of the backend at one address; gives whether it answered, and what failed.
local function read_from(backend, address)
    local headers = { Accept = "application/json" }
    local asked = address .. ":" .. backend.port
    if etag and etag_of == asked then
        headers["If-None-Match"] = etag
    end
    local response, err = http_client.get(address, backend.port, PATH, headers)
    if not response then
        return false, err
    end
    if response.status == 304 then
        confirmed_at = ngx.now()
        return true
    end
    if response.status ~= 200 then
        return false, "status " .. response.status
    end
    local processors = cjson.decode(response.body)
    if type(processors) ~= "table" or type(processors.processors) ~= "table" then
        return false, "not the JSON of " .. PATH
    end
    -- another worker may have a newer one, if this one has been starting or waiting for the answer
    adopt_shared()
    if current and topology.is_newer(current.epoch, processors.epoch) then
        return false, "lesser epoch " .. tostring(processors.epoch):sub(1, 64)
    end
    local used
    used, err = use(processors, addresses_of(processors))
    if not used then
        return false, err
    end
    etag, etag_of = response.headers.etag, asked
    last_source = name_of(backend)
    confirmed_at = ngx.now()
    share()
    return true
end

--- Reads the map of a backend, at the first of its host's addresses that gives one.
local function read(backend)
    local answered, err = false, "no address for " .. backend.host
    for i, address in ipairs(resolver.addresses(backend.host, ngx.now())) do
        if i > ADDRESSES_ASKED then
            break
        end
        -- one that says what nobody has thought of shall not keep the others from being asked
        local ok
        ok, answered, err = pcall(read_from, backend, address)
        if not ok then
            answered, err = false, tostring(answered)
        end
        if answered then
            break
        end
    end
    local name = name_of(backend)
    if err ~= failures[name] then
        if err then
            ngx.log(ngx.WARN, "topology not read from ", name, ": ", err)
        end
        failures[name] = err
    end
    return answered
end

--- Whom to ask for a map, a few at a time: who gave the last, then the configured ones and those
-- of the map, from anywhere on.
local function sources()
    local list, seen = {}, {}
    local function add_all(backends, only)
        local start = #backends > 0 and math.random(#backends) or 0
        for i = 1, #backends do
            local backend = backends[(start + i) % #backends + 1]
            local name = name_of(backend)
            if not seen[name] and #list < ASKED_AT_ONCE and (not only or only == name) then
                seen[name] = true
                list[#list + 1] = backend
            end
        end
    end
    local known = current and current.backends or {}
    if last_source then
        add_all(settings.seeds, last_source)
        add_all(known, last_source)
    end
    add_all(settings.seeds)
    add_all(known)
    return list
end

--- A host whose address has changed moves without a new epoch.
local function follow_addresses()
    local addresses = addresses_of(source.processors)
    for host, address in pairs(addresses) do
        if source.addresses[host] ~= address then
            use(source.processors, addresses)
            return
        end
    end
end

--- Backends come and go: what failed is kept of those alone that may be asked again.
local function forget_failures()
    local known = {}
    for _, backends in ipairs { settings.seeds, current and current.backends or {} } do
        for _, backend in ipairs(backends) do
            known[name_of(backend)] = true
        end
    end
    for name in pairs(failures) do
        if not known[name] then
            failures[name] = nil
        end
    end
end

local function refresh()
    for _, backend in ipairs(sources()) do
        if read(backend) then
            break
        end
    end
    if current then
        follow_addresses()
    end
    forget_failures()
    resolver.forget(ngx.now())
end

--- Refreshes the map if it is time to. nginx repeats this timer by itself: one that could not run,
-- for whatever reason, does not keep the next ones from running.
local function tick(premature)
    if premature or is_refreshing or ngx.now() < due then
        return
    end
    is_refreshing = true
    local ok, err = pcall(refresh)
    is_refreshing = false
    if not ok then
        ngx.log(ngx.ERR, "topology not refreshed: ", err)
    end
    -- jitter: workers that started together shall not ask together for ever
    due = ngx.now() + (current and settings.refresh or NO_MAP_YET_S) * (0.8 + 0.4 * math.random())
end

--- To be called as each worker starts.
function _M.init_worker()
    math.randomseed(ngx.now() * 1000 + ngx.worker.pid())
    adopt_shared()
    local ok, err = ngx.timer.every(math.min(TICK_S, settings.refresh / 2), tick)
    if not ok then
        ngx.log(ngx.ERR, "topology will not be read: ", err)
    end
    -- at once; if that fails, the timer above does it
    ngx.timer.at(0, tick)
end

local function follow(premature, backend)
    if premature or is_following then
        return
    end
    is_following = true
    local ok, err = pcall(read, backend)
    is_following = false
    if not ok then
        ngx.log(ngx.ERR, "epoch of ", backend.name, " not followed: ", err)
    end
end

--- Takes notice of the epoch in a response. A greater one than ours is followed to the backend it
-- came from: at most ten times a second, counted over all workers.
-- Hot path: one comparison of interned strings when there is nothing new.
function _M.note(epoch, backend)
    if not current or epoch == current.epoch or not topology.is_newer(epoch, current.epoch) then
        return
    end
    adopt_shared()
    if topology.is_newer(epoch, current.epoch)
        and not is_following
        and shared:add("followed", true, FOLLOW_AT_MOST_EVERY_S)
    then
        local ok, err = ngx.timer.at(0, follow, backend)
        if not ok then
            ngx.log(ngx.WARN, "epoch ", epoch, " not followed: ", err)
        end
    end
end

--- The map in force; nil while there has been none.
function _M.map()
    if not current then
        -- another worker may have been quicker
        adopt_shared()
    end
    return current
end

--- For /proxy/health: seconds since a backend last confirmed the map (nil: never), and what failed.
function _M.report()
    return confirmed_at and ngx.now() - confirmed_at, failures
end

return _M
