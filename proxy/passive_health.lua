--- Which backends failed a moment ago, so that others are asked before them. Pure: the caller gives
-- the time (s). Each worker learns for itself: that needs no lock, and finding out costs a point
-- read 0.4 s.
--
-- A backend that fails is left out for 0.25 s, and for twice as long each time it fails again, up
-- to 10 s. When the time is over, one point read tries it while all else still goes elsewhere; one
-- success ends it. Left out means asked last, not never: it may be all there is.
--   by_name   "address:port" ► {failures, till, tried_till}
--   count     how many there are: 0 nearly always, and then nothing else is looked at

local FIRST_S, LONGEST_S = 0.25, 10
-- how long one trial keeps others away, if nothing is heard of it (the client went)
local TRIAL_S = 1
-- a backend that nobody has tried for so long after its time is as good as any: a standby is asked
-- only if the active fails, and what is no point read never tries one
local FORGOTTEN_S = 10
local SWEPT_EVERY_S = 1

local _M = {}

function _M.new()
    return { by_name = {}, count = 0, swept = 0 }
end

--- The backend refused, broke off or did not answer an attempt that began at `began`.
-- One that began before the time was over says nothing new: many may have been under way.
function _M.failed(health, name, began, now)
    local entry = health.by_name[name]
    if not entry then
        entry = { failures = 0, till = 0, tried_till = 0 }
        health.by_name[name] = entry
        health.count = health.count + 1
    elseif began < entry.till then
        return
    end
    entry.till = now + math.min(FIRST_S * 2 ^ entry.failures, LONGEST_S)
    entry.failures = entry.failures + 1
    entry.tried_till = 0
end

--- The backend has answered, whatever it said.
function _M.succeeded(health, name)
    if health.by_name[name] then
        health.by_name[name] = nil
        health.count = health.count - 1
    end
end

local function sweep(health, now)
    if now < health.swept + SWEPT_EVERY_S then
        return
    end
    health.swept = now
    for name, entry in pairs(health.by_name) do
        if now > entry.till + FORGOTTEN_S then
            _M.succeeded(health, name)
        end
    end
end

--- Whether to ask others first; if not, and it has failed, this request is the one that tries it.
local function is_left_out(entry, may_try, now)
    if not entry then
        return false
    end
    if not may_try or now < entry.till or now < entry.tried_till then
        return true
    end
    entry.tried_till = now + TRIAL_S
    return false
end

--- Backends, given by rank, as a new list: those in health, those left out, the dead.
-- may_try: whether the request may try the backend that it asks first. Gives the list, and how many
-- of its first are good: all, if none is better than the others.
function _M.order(health, backends, may_try, now)
    sweep(health, now)
    local ordered, left_out, dead = {}, {}, {}
    for _, backend in ipairs(backends) do
        if backend.is_dead then
            dead[#dead + 1] = backend
        elseif is_left_out(health.by_name[backend.name], may_try and #ordered == 0, now) then
            left_out[#left_out + 1] = backend
        else
            ordered[#ordered + 1] = backend
        end
    end
    local good = #ordered
    for _, backend in ipairs(left_out) do
        ordered[#ordered + 1] = backend
    end
    for _, backend in ipairs(dead) do
        ordered[#ordered + 1] = backend
    end
    return ordered, good > 0 and good or #ordered
end

return _M
