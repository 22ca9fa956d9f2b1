--- The topology that the workers share, in a dict that outlives them. So the workers after a reload
-- have it from the start. In each interval, one worker reads it for all workers.

local cjson = require "cjson.safe"
local clock = require "proxy.telemetry.clock"

local _M = {}

local shared = ngx.shared.queryable_topics

-- its revision is set last: a worker that sees it must find its topology, or a newer one
local DOCUMENT, EPOCH, REVISION = "map", "epoch", "map_revision"
-- earlier versions have kept "confirmed", by the time of day
local CONFIRMED, FAILURES, TURN, FOLLOWED = "confirmed_at", "failures", "turn", "followed"
local FAILED_ASKED = "failed_asked"

--- Changes with each topology that is stored.
function _M.revision()
    return shared:get(REVISION) or 0
end

--- The epoch of the stored topology; nil if there is none.
function _M.epoch()
    return shared:get(EPOCH)
end

--- Returns the document that was stored last; nil if there is none.
function _M.load()
    return cjson.decode(shared:get(DOCUMENT) or "")
end

--- Stores {processors, addresses, etag, sender, source, replaces}. Returns its revision; nil if it
-- is too large.
function _M.store(epoch, document)
    local ok, err = shared:set(DOCUMENT, cjson.encode(document))
    if ok then
        ok, err = shared:set(EPOCH, epoch)
    end
    local revision
    if ok then
        revision, err = shared:incr(REVISION, 1, 0)
    end
    if not revision then
        ngx.log(ngx.ERR, "cannot share the topology with other workers: ", err)
    end
    return revision
end

--- Call when a backend says that the topology of this epoch is its latest.
function _M.confirm(epoch)
    shared:set(CONFIRMED, epoch .. " " .. clock.steady())
end

--- Returns when a backend last confirmed the topology of this epoch (s, of `clock.steady`); nil if
-- none has, or if a newer epoch was confirmed since then.
function _M.confirmed_at(epoch)
    local confirmed, time = (shared:get(CONFIRMED) or ""):match("^(%S+) (%S+)$")
    return confirmed == epoch and tonumber(time) or nil
end

--- Whether the caller may do the task `name` now: one worker may, once in `seconds`.
function _M.take(name, seconds)
    local now = clock.steady()
    local ends_at = now + seconds
    if shared:add(name, ends_at, seconds) then
        return true
    end
    -- the dict's expiry follows the time of day, which may have been set back
    local known = shared:get(name)
    if type(known) ~= "number" or now < known then
        return false
    end
    _M.hold(name, seconds)
    return true
end

--- Extends what the caller has taken: no other worker can take it for `seconds` from now on.
function _M.hold(name, seconds)
    shared:set(name, clock.steady() + seconds, seconds)
end

--- Releases what the caller has taken: it can be taken again.
function _M.release(name)
    shared:delete(name)
end

--- Whether the caller is the worker that reads the topology in this interval (s).
function _M.take_turn(interval)
    return _M.take(TURN, interval)
end

--- When the turn that was taken last ends, by clock.steady(); 0 if it has ended.
function _M.turn_ends_at()
    local ends_at = shared:get(TURN)
    return type(ends_at) == "number" and ends_at or 0
end

--- Lets the next turn begin in `seconds`, because this one brought no topology.
function _M.shorten_turn(seconds)
    _M.hold(TURN, seconds)
end

--- Whether the caller may read the topology immediately because of a newer epoch: one worker may,
-- once in `seconds`.
function _M.may_follow(seconds)
    return _M.take(FOLLOWED, seconds)
end

--- Whether the caller may ask backends again that have failed: one worker may, once in `seconds`.
function _M.may_ask_failed(seconds)
    return _M.take(FAILED_ASKED, seconds)
end

--- Why the topology could not be read: error message by the backend's name.
function _M.failures()
    return cjson.decode(shared:get(FAILURES) or "") or {}
end

function _M.set_failures(failures)
    shared:set(FAILURES, cjson.encode(failures))
end

--- Removes the failures of backends that are in none of these lists.
function _M.prune_failures(...)
    local known = {}
    for _, backends in ipairs { ... } do
        for _, backend in ipairs(backends) do
            known[backend.host .. ":" .. backend.port] = true
        end
    end
    local left, is_changed = {}, false
    for name, err in pairs(_M.failures()) do
        if known[name] then
            left[name] = err
        else
            is_changed = true
        end
    end
    if is_changed then
        _M.set_failures(left)
    end
end

return _M
