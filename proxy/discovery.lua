--- Keeps the topology up to date. In each interval one worker reads /processors, and the others use
-- what it has read (see shared_topology). If that fails, the last valid topology stays in use.
-- `observe_epoch()` takes the epoch of each response.
--
-- An older topology replaces the topology in use only if no backend has confirmed the latter for a
-- while. This happens when all instances were restarted, and the clock of the previous leader was
-- ahead.
--
-- If the backends belong to deployments of a service, the topology is that of the current
-- deployment. When another deployment becomes current, the old topology stays in use until a
-- backend of the new deployment answers.

local addresses = require "proxy.addresses"
local cjson = require "cjson.safe"
local clock = require "proxy.telemetry.clock"
local current_deployment = require "proxy.current_deployment"
local failures = require "proxy.discovery.failures"
local processors = require "proxy.processors"
local refresh_timer = require "proxy.discovery.refresh_timer"
local resolver = require "proxy.resolver"
local settings = require "proxy.settings"
local shared_topology = require "proxy.discovery.shared_topology"
local topology = require "proxy.topology"
local page = require "proxy.admin.page"
local workers = require "proxy.admin.workers"

local _M = {}

local RETRY_INTERVAL_S = 0.2
local MIN_FOLLOW_INTERVAL_S = 0.1
local MAX_SOURCES = 4
local MAX_ADDRESSES = 4
local MAX_LOGGED_BYTES = 64

--- Timers of this module that may run at the same time in a worker: a refresh, a tick that finds it
-- running, and one that follows an epoch. See lua_max_running_timers in nginx.conf.
_M.MAX_TIMERS = 3

--- A topology that no backend has confirmed for this time (s) may be replaced by an older one.
_M.FORGET_S = math.max(30, 3 * settings.refresh)

-- this worker's topology, and the document that it was built from: {processors, addresses, etag,
-- sender, source, replaces}. etag is used only at `sender`, the address that sent the document,
-- because each older backend counts its ETags itself. source is the name of the backend that sent
-- it; this backend is asked first, because instances can report different states. replaces is the
-- newer epoch that the document replaces, or nil
local current, source
-- the shared revision that this worker has looked at; nil: none yet
local revision
local confirmed_at
local is_refreshing, is_following = false, false

local function name_of(backend)
    return backend.host .. ":" .. backend.port
end

--- Logs which backends get no requests because they speak HTTPS.
local function log_unused(built)
    for _, backend in ipairs(built.backends) do
        if backend.tls_name and not settings.has_tls then
            ngx.log(ngx.ERR, "backend ", backend.id, " gets no requests: it speaks HTTPS, and "
                    .. "QUERYABLE_BACKENDS names no backend as https://host:port")
        end
    end
end

local function use(document)
    local tls = { is_on = settings.has_tls, name = settings.tls_name }
    local built, err = topology.build(document.processors, document.addresses, tls)
    if not built then
        return nil, err
    end
    if not current or current.epoch ~= built.epoch then
        ngx.log(ngx.NOTICE, "topology ", built.epoch, ": ", #built.backends, " backends")
        log_unused(built)
    end
    current, source = built, document
    return true
end

--- Shares what this worker uses.
local function store()
    local stored = shared_topology.store(current.epoch, source)
    -- otherwise another worker has stored a newer topology meanwhile, which this worker must load
    if stored and shared_topology.epoch() == current.epoch then
        revision = stored
    end
end

--- Tells the health page what this worker knows, if a backend has confirmed it since the last time.
local function report()
    local at = shared_topology.confirmed_at(current.epoch)
    if at and at ~= confirmed_at then
        confirmed_at = at
        workers.report(current.epoch, confirmed_at)
    end
end

--- Whether the topology in use is that of another deployment than the current one.
local function is_of_other()
    return current and not current_deployment.is(source.processors.application_id)
end

--- Whether a document of /processors may replace the topology in use. replaces: a newer epoch that
-- the document may replace nevertheless, or nil.
local function may_replace(document, replaces)
    if not current or not current_deployment.is(document.application_id) then
        return not current
    end
    -- epochs of two deployments cannot be compared; without a service, the greatest epoch counts
    if current_deployment.known()
        and document.application_id ~= source.processors.application_id
    then
        return true
    end
    return not topology.is_newer(current.epoch, document.epoch)
        or replaces and not topology.is_newer(current.epoch, replaces)
end

--- Uses the topology of another worker, or of the workers before a reload, unless it is older.
local function load_shared()
    local stored = shared_topology.revision()
    if stored == revision then
        return
    end
    revision = stored
    local document = shared_topology.load()
    if not document or not may_replace(document.processors, document.replaces) then
        return
    end
    if use(document) then
        confirmed_at = nil
        report()
    end
end

--- Whether no backend has confirmed the topology for long.
local function is_forgotten()
    local at = current and shared_topology.confirmed_at(current.epoch)
    return at and clock.steady() - at > _M.FORGET_S
end

--- Reads the topology from the backend at one address. Returns true; or false and an error, which
-- is nil if the backend is not of the current deployment. takes_older: whether the topology may be
-- older than the one in use.
local function read_from(backend, address, takes_older)
    local server = address .. ":" .. backend.port
    local etag = source and source.sender == server and not is_of_other() and source.etag or nil
    local response, err = processors.get(address, backend.port, backend.tls_name, etag)
    if not response then
        return false, err
    end
    if response.status == 304 then
        shared_topology.confirm(current.epoch)
        report()
        return true
    end
    local document = cjson.decode(response.body)
    if type(document) ~= "table" or type(document.processors) ~= "table" then
        return false, "invalid topology"
    end
    local known_id = source and source.processors.application_id
    if current_deployment.is_stranger(backend, document.application_id, known_id) then
        return false, "an instance of another deployment"
    end
    current_deployment.learn(document.service, document.application_id)
    if not current_deployment.is(document.application_id) then
        return false
    end
    local resolved = addresses.choose_all(document.processors, source and source.addresses)
    -- another worker may have stored a newer one while this worker waited
    load_shared()
    local replaces = takes_older and is_forgotten() and current.epoch or nil
    if not may_replace(document, replaces) then
        return false, "older epoch " .. tostring(document.epoch):sub(1, MAX_LOGGED_BYTES)
    end
    local used
    used, err = use {
        processors = document,
        addresses = resolved,
        etag = response.headers.etag,
        sender = server,
        source = name_of(backend),
        replaces = replaces,
    }
    if not used then
        return false, "invalid topology: " .. err
    end
    store()
    shared_topology.confirm(current.epoch)
    report()
    return true
end

--- Reads the topology from a backend, at the first of its addresses that answers.
local function read(backend, takes_older)
    local answered, err = false, "no address for " .. backend.host
    local known = resolver.addresses(backend.host, clock.steady(), backend.address)
    for i, address in ipairs(known) do
        if i > MAX_ADDRESSES then
            break
        end
        -- an invalid response must not prevent requests to the other backends
        local ok
        ok, answered, err = pcall(read_from, backend, address, takes_older)
        if not ok then
            answered, err = false, tostring(answered)
        end
        if answered then
            pcall(page.keep, address, backend, current.epoch)
            break
        end
    end
    failures.record(name_of(backend), err)
    return answered
end

--- Returns the backends to read from: the last source, then configured backends, then backends of
-- the topology. One place is left for a backend of the topology, because all configured ones may be
-- gone. If the topology is not that of the current deployment, the list has all configured
-- backends. Each list is traversed from a random index and wraps around.
local function choose_sources()
    local sources, seen = {}, {}
    local max = is_of_other() and #settings.seeds or MAX_SOURCES
    local function add(backends, limit, only)
        local start = #backends > 0 and math.random(#backends) or 0
        for i = 1, #backends do
            local backend = backends[(start + i) % #backends + 1]
            local name = name_of(backend)
            if not seen[name] and #sources < limit and (not only or only == name) then
                seen[name] = true
                sources[#sources + 1] = backend
            end
        end
    end
    local known = current and current.backends or {}
    local is_current = source and not is_of_other()
    if is_current then
        add(settings.seeds, max, source.source)
        add(known, max, source.source)
    end
    add(settings.seeds, is_current and max - 1 or max)
    add(known, max)
    return sources
end

--- Rebuilds the topology if the address of a host has changed, which changes no epoch.
local function update_addresses()
    local before = source
    local resolved = addresses.choose_all(before.processors.processors, before.addresses)
    -- another worker may have read a newer one meanwhile
    load_shared()
    if source ~= before then
        return
    end
    for host, address in pairs(resolved) do
        if source.addresses[host] ~= address then
            local document = {}
            for name, value in pairs(source) do
                document[name] = value
            end
            document.addresses = resolved
            if use(document) then
                store()
            end
            return
        end
    end
end

--- Reads the topology from the first backend that has it. Returns whether one does.
local function read_any(takes_older)
    for _, backend in ipairs(choose_sources()) do
        if read(backend, takes_older) then
            return true
        end
    end
    return false
end

local function refresh()
    if not read_any(false) and is_forgotten() then
        read_any(true)
    end
    if current then
        failures.ask_again({ settings.seeds, current.backends }, name_of, read)
        update_addresses()
    else
        shared_topology.shorten_turn(RETRY_INTERVAL_S)
    end
    shared_topology.prune_failures(settings.seeds, current and current.backends or {})
    resolver.evict(clock.steady())
end

--- Uses what another worker has read, and refreshes the topology if that is due. Returns whether a
-- refresh is in progress.
local function tick()
    load_shared()
    if current then
        report()
    end
    if is_refreshing then
        return true
    end
    -- jitter: proxies that started together must not stay in step
    if not shared_topology.take_turn(settings.refresh * (0.8 + 0.4 * math.random())) then
        return false
    end
    is_refreshing = true
    local ok, err = pcall(refresh)
    is_refreshing = false
    if not ok then
        ngx.log(ngx.ERR, "cannot refresh the topology: ", err)
    end
    if current then
        report()
    end
    return false
end

--- Call when a worker starts.
function _M.init_worker()
    math.randomseed(ngx.now() * 1000 + ngx.worker.pid())
    load_shared()
    if not confirmed_at then
        workers.report(current and current.epoch)
    end
    refresh_timer.start(tick)
end

local function follow(premature, backend)
    if premature or is_following then
        return
    end
    is_following = true
    local ok, err = pcall(function()
        if not read(backend) and is_of_other() then
            refresh()
        end
    end)
    is_following = false
    if not ok then
        ngx.log(ngx.ERR, "cannot read the topology from ", backend.name, ": ", err)
    end
end

--- Handles the epoch of a response. If it is newer than the current one, the topology is read from
-- the backend that sent it: at most ten times a second for all workers together.
-- Hot path: one comparison of interned strings if the epoch has not changed.
function _M.observe_epoch(epoch, backend)
    if not current or epoch == current.epoch or not topology.is_newer(epoch, current.epoch) then
        return
    end
    load_shared()
    if topology.is_newer(epoch, current.epoch)
        and not is_following
        and shared_topology.may_follow(MIN_FOLLOW_INTERVAL_S)
    then
        local ok, err = ngx.timer.at(0, follow, backend)
        if not ok then
            ngx.log(ngx.WARN, "cannot follow epoch ", epoch, ": ", err)
        end
    end
end

--- The current topology; nil if none has been read yet.
function _M.topology()
    if not current then
        -- another worker may have read it
        load_shared()
    end
    return current
end

--- For the health page: seconds since a backend last confirmed the topology (nil: never), error
-- messages by backend, and the application id of the deployment in use (nil: unknown).
function _M.status()
    local application_id = source and source.processors.application_id
    local age = confirmed_at and clock.steady() - confirmed_at
    return age, shared_topology.failures(), application_id
end

return _M
