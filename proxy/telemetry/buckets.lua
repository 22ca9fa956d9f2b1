--- The buckets of latency histograms: those of backend/telemetry/buckets.py, so that histograms of
-- proxies and backends can be compared. Each upper bound is less than 10 % above the one before.
-- Pure.

local _M = {}

local PER_DECADE, LOWEST, HIGHEST = 25, -4, 1

local log = math.log

--- Upper bounds (s), from 0.1 ms to 10 s, and their texts. One more bucket, after the last bound,
-- counts all longer durations.
_M.BOUNDS, _M.TEXTS = {}, {}
for exponent = LOWEST * PER_DECADE, HIGHEST * PER_DECADE do
    local text = ("%.4g"):format(10 ^ (exponent / PER_DECADE))
    _M.TEXTS[#_M.TEXTS + 1] = text
    _M.BOUNDS[#_M.BOUNDS + 1] = tonumber(text)
end

local BOUNDS, COUNT = _M.BOUNDS, #_M.BOUNDS
_M.BUCKETS = COUNT + 1

local SCALE = PER_DECADE / log(10)
local FIRST = 1 - LOWEST * PER_DECADE

--- The number of the bucket, from 1, of a duration in s.
function _M.bucket_of(seconds)
    if seconds <= BOUNDS[1] then
        return 1
    end
    if seconds > BOUNDS[COUNT] then
        return COUNT + 1
    end
    local bucket = math.ceil(log(seconds) * SCALE) + FIRST
    -- the bounds are rounded
    if bucket > COUNT or seconds <= BOUNDS[bucket - 1] then
        return bucket - 1
    end
    if seconds > BOUNDS[bucket] then
        return bucket + 1
    end
    return bucket
end

return _M
