--- A clock for durations: the one of nginx has a resolution of 1 ms, and a read takes less. As
-- nginx does for $request_time, it reads the time of day: a duration in which that is set is wrong.
-- And a monotonic clock, for what must not last until the time of day is there again.

local ffi = require "ffi"

-- A timespec of a 64-bit machine, in halves: LuaJIT's interpreter would allocate memory for a whole
-- field. All machines that LuaJIT and nginx run on are little-endian.
ffi.cdef [[
struct queryable_timespec { uint32_t seconds, seconds_high, nanoseconds, nanoseconds_high; };
int queryable_clock_gettime(int, struct queryable_timespec *) __asm__("clock_gettime");
]]

local CLOCK_REALTIME, CLOCK_MONOTONIC = 0, 1

local _M = {}

local gettime, time = ffi.C.queryable_clock_gettime, ffi.new("struct queryable_timespec")

--- Seconds since 1970.
function _M.now()
    gettime(CLOCK_REALTIME, time)
    return time.seconds + time.nanoseconds * 1e-9
end

--- Seconds since the start of the machine; the same in all workers.
function _M.steady()
    gettime(CLOCK_MONOTONIC, time)
    return time.seconds + time.nanoseconds * 1e-9
end

local now = _M.now

-- nginx's clock is cut off to ms: half of that is the expected error
local ERROR_S, WORTHWHILE_S = 0.0005, 0.002

--- When a request that is handled now has reached nginx. nginx reads its clock when it learns of
-- requests, and then handles one after the other: with many, the last one waits. `noted`: that time
-- (s, of nginx's clock).
function _M.began(noted)
    local at = now()
    return at - noted > WORTHWHILE_S and noted + ERROR_S or at
end

return _M
