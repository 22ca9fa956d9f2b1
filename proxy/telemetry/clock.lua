--- A clock for durations. nginx's own has a resolution of 1 ms, and a read takes less.

local ffi = require "ffi"

ffi.cdef [[
struct queryable_timespec { long seconds; long nanoseconds; };
int queryable_clock_gettime(int, struct queryable_timespec *) __asm__("clock_gettime");
]]

local CLOCK_MONOTONIC = 1

local _M = {}

local C, time = ffi.C, ffi.new("struct queryable_timespec")

--- Seconds since some time in the past.
function _M.now()
    C.queryable_clock_gettime(CLOCK_MONOTONIC, time)
    return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end

return _M
