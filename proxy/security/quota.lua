--- Quotas of views: a token bucket for each view, which all workers share.
--
-- The bucket is one number in a shared dict: how many tokens were ever taken. The bucket has been
-- filled with `rate * now` tokens in total, so both numbers together say how many are left, and
-- taking one is a single atomic increment. Tokens above the capacity are lost. `now` comes from a
-- monotonic clock: if it went back, the bucket would be empty until it is that late again.

local _M = {}

local SECONDS = { s = 1, m = 60 }
-- Seconds. If a worker ends while it discards tokens, other workers can discard them after this
-- time
local LOCK_S = 1

--- Parses a quota such as "5000/s". Returns {key, lock, rate, capacity}; nil if the text is not a
-- quota.
function _M.parse(view, text)
    local count, unit = tostring(text):match("^(%d+)/([sm])$")
    count = tonumber(count)
    if not count or count < 1 then
        return nil
    end
    -- earlier versions have counted in "quota:", by the time of day
    local key = "tokens:" .. view .. ":" .. text
    return { key = key, lock = "lock:" .. key, rate = count / SECONDS[unit], capacity = count }
end

--- Discards the tokens above the capacity; one worker at a time. `taken`: the number of tokens
-- after this request has taken one. Tokens that other workers take at this time stay counted.
local function discard(shared, quota, filled, taken)
    if not shared:add(quota.lock, true, LOCK_S) then
        return
    end
    -- otherwise another worker has discarded them
    if (shared:get(quota.key) or filled) < filled then
        shared:incr(quota.key, filled + 1 - taken)
    end
    shared:delete(quota.lock)
end

--- Gives the token of a request back.
function _M.give_back(shared, quota)
    shared:incr(quota.key, -1)
end

--- Takes a token. Returns nil if there was one, else the time (s) until there is one.
-- shared: the shared dict; now: s, of `clock.steady`.
function _M.take(shared, quota, now)
    local filled = quota.rate * now
    local taken = shared:incr(quota.key, 1, filled)
    if not taken then
        return nil -- the dict is full: a quota must not stop all requests
    end
    if taken < filled then
        discard(shared, quota, filled, taken)
        return nil
    end
    local missing = taken - filled - quota.capacity
    if missing <= 0 then
        return nil
    end
    _M.give_back(shared, quota)
    return missing / quota.rate
end

return _M
