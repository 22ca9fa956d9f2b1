--- Remembers which backends failed recently, so that others are tried before them. Pure: the caller
-- passes the time (s). Each worker keeps its own table and needs no lock; detecting a backend that
-- hangs costs one point read 0.4 s.
--
-- A backend that fails is tried last for 0.25 s, and for twice as long after each further failure,
-- up to 10 s. Then one point read probes it, while other requests still go to other backends. One
-- success removes the entry. Such a backend is tried last rather than never, because it may be the
-- only one.
--   by_name  "address:port" ► {failures, retry_at, probed_until}
--   count    number of entries; it is usually 0, and then the caller skips `order`

local MIN_BACKOFF_S, MAX_BACKOFF_S = 0.25, 10
-- a probe whose outcome is never reported (the client disconnected) prevents others for this time
local PROBE_S = 1
-- an entry that has not been probed for this time is removed: a standby is tried only if the active
-- fails, and only point reads probe
local EXPIRY_S = 10
local SWEEP_INTERVAL_S = 1

local _M = {}

function _M.new()
    return { by_name = {}, count = 0, swept_at = 0 }
end

--- Call when an attempt that began at `started_at` was refused, reset or not answered. Attempts
-- that began before `retry_at` do not count: many may have run at the same time.
function _M.failed(health, name, started_at, now)
    local entry = health.by_name[name]
    if not entry then
        entry = { failures = 0, retry_at = 0, probed_until = 0 }
        health.by_name[name] = entry
        health.count = health.count + 1
    elseif started_at < entry.retry_at then
        return
    end
    entry.retry_at = now + math.min(MIN_BACKOFF_S * 2 ^ entry.failures, MAX_BACKOFF_S)
    entry.failures = entry.failures + 1
    entry.probed_until = 0
end

--- Call when the backend has answered, with any status.
function _M.succeeded(health, name)
    if health.by_name[name] then
        health.by_name[name] = nil
        health.count = health.count - 1
    end
end

local function sweep(health, now)
    if now < health.swept_at + SWEEP_INTERVAL_S then
        return
    end
    health.swept_at = now
    for name, entry in pairs(health.by_name) do
        if now > entry.retry_at + EXPIRY_S then
            _M.succeeded(health, name)
        end
    end
end

--- Whether the backend is tried after others. If there is an entry and this returns false, the
-- request is the probe.
local function is_avoided(entry, may_probe, now)
    if not entry then
        return false
    end
    if not may_probe or now < entry.retry_at or now < entry.probed_until then
        return true
    end
    entry.probed_until = now + PROBE_S
    return false
end

--- Sorts backends, given by rank, into a new list: healthy ones, recently failed ones, dead ones.
-- may_probe: whether the request may probe the backend that it tries first. Also returns the number
-- of healthy backends; all, if none is healthy.
function _M.order(health, backends, may_probe, now)
    sweep(health, now)
    local ordered, avoided, dead = {}, {}, {}
    for _, backend in ipairs(backends) do
        if backend.is_dead then
            dead[#dead + 1] = backend
        elseif is_avoided(health.by_name[backend.name], may_probe and #ordered == 0, now) then
            avoided[#avoided + 1] = backend
        else
            ordered[#ordered + 1] = backend
        end
    end
    local healthy = #ordered
    for _, backend in ipairs(avoided) do
        ordered[#ordered + 1] = backend
    end
    for _, backend in ipairs(dead) do
        ordered[#ordered + 1] = backend
    end
    return ordered, healthy > 0 and healthy or #ordered
end

return _M
