--- A clock for durations. nginx's own has a resolution of 1 ms, and a read takes less.

local ffi = require "ffi"

ffi.cdef [[
struct queryable_timespec { long seconds; long nanoseconds; };
int queryable_clock_gettime(int, struct queryable_timespec *) __asm__("clock_gettime");
]]

local CLOCK_REALTIME, CLOCK_MONOTONIC = 0, 1

local _M = {}

local C, time = ffi.C, ffi.new("struct queryable_timespec")

local function read(clock)
    C.queryable_clock_gettime(clock, time)
    return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end

--- Seconds since some time in the past.
function _M.now()
    return read(CLOCK_MONOTONIC)
end

-- nginx's clock is cut off to ms: half of that is the expected error
local ERROR_S, WORTHWHILE_S = 0.0005, 0.002

--- When a request that is handled now has reached nginx, as `now` counts. nginx reads its clock
-- when it learns of requests, and then handles one after the other: with many, the last one waits.
-- `noted`: that time (s, of nginx's clock).
function _M.began(noted)
    local waited = read(CLOCK_REALTIME) - noted
    local now = read(CLOCK_MONOTONIC)
    return waited > WORTHWHILE_S and now - waited + ERROR_S or now
end

return _M
