--- Two clocks. `now` is for durations: nginx's own clock has a resolution of 1 ms, and a point read
-- takes less time. It reads the time of day, as nginx does for $request_time, so a duration is
-- wrong if the time of day is set before its end. `steady` is monotonic. It is for time-outs, which
-- must not become longer when the time of day is set back.

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

-- nginx's clock is cut off to whole ms, so its expected error is half a ms
local ERROR_S, WORTHWHILE_S = 0.0005, 0.002

--- Returns when the request that is handled now reached nginx. nginx reads its clock when it learns
-- of requests, and then handles them one after another: if there are many, the last one waits.
-- `noted`: what nginx's clock showed then (s).
function _M.began(noted)
    local at = now()
    return at - noted > WORTHWHILE_S and noted + ERROR_S or at
end

return _M
