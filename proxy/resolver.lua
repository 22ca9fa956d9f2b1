--- Resolves host names with the system's resolver (/etc/hosts, DNS, search domains), because
-- nginx's balancer takes only addresses. getaddrinfo(3) blocks the worker, so only discovery's
-- timer calls it; answers are cached, and nginx.conf shortens its time-outs. An address is returned
-- unchanged. Linux only: the structure below is that of glibc and musl.
--
-- If name servers answer slowly or not at all, a look-up takes seconds, during which the worker
-- does nothing else. Fast look-ups of many names take as long in total. So known names are looked
-- up rarely, and the worker spends only a small part of its time on look-ups. Between look-ups, the
-- last known addresses are used.

local clock = require "proxy.telemetry.clock"
local ffi = require "ffi"

ffi.cdef [[
struct qt_addrinfo {
    int ai_flags, ai_family, ai_socktype, ai_protocol;
    unsigned int ai_addrlen;
    void *ai_addr;
    char *ai_canonname;
    struct qt_addrinfo *ai_next;
};
int getaddrinfo(const char *node, const char *service, const struct qt_addrinfo *hints,
                struct qt_addrinfo **result);
void freeaddrinfo(struct qt_addrinfo *result);
int getnameinfo(const void *address, unsigned int length, char *host, unsigned int host_size,
                char *service, unsigned int service_size, int flags);
]]

local SOCK_STREAM = 1
local NI_NUMERICHOST = 1
local FAILURE_TTL_S = 2
-- after look-ups that take longer than SLOW_S in total, the next look-up waits for PAUSE times that
-- long
local SLOW_S, PAUSE = 0.05, 20
-- A look-up counts as LONGEST_S at most: if it takes longer, the worker was mostly stopped
local LONGEST_S = 10
-- each refresh of the topology resolves the names in use; refreshes are at most an hour apart
local EVICT_AFTER_S = 2 * 3600

local _M = {}

_M.TTL_S = 10

-- spent: s, by look-ups since the last pause
local cache, spent, paused_until = {}, 0, 0

local function is_address(host)
    return host:find("^%d+%.%d+%.%d+%.%d+$") or host:find("^%[.*%]$")
end

--- All addresses of a name, IPv6 ones in brackets; nil if there are none.
local function look_up(host)
    local hints = ffi.new("struct qt_addrinfo")
    hints.ai_socktype = SOCK_STREAM
    local result = ffi.new("struct qt_addrinfo *[1]")
    if ffi.C.getaddrinfo(host, nil, hints, result) ~= 0 then
        return nil
    end
    local addresses = {}
    local text = ffi.new("char[64]")
    local entry = result[0]
    while entry ~= nil do
        if ffi.C.getnameinfo(entry.ai_addr, entry.ai_addrlen, text, 64, nil, 0, NI_NUMERICHOST) == 0
        then
            local address = ffi.string(text)
            if address:find(":", 1, true) then
                address = "[" .. address .. "]"
            end
            addresses[#addresses + 1] = address
        end
        entry = entry.ai_next
    end
    ffi.C.freeaddrinfo(result[0])
    return #addresses > 0 and addresses or nil
end

--- Returns for how many seconds the result of a look-up is used: long enough to look up all other
-- names before this name is looked up again. took: seconds that the look-up took; has_stopped:
-- whether the worker was mostly stopped meanwhile, so that other look-ups take less time.
local function seconds_of(addresses, is_resolved, took, has_stopped)
    local seconds = is_resolved and _M.TTL_S or FAILURE_TTL_S
    if #addresses > 0 then
        for _ in pairs(cache) do
            seconds = seconds + (PAUSE + 1) * took
            if has_stopped then
                break
            end
        end
    end
    return seconds
end

--- The addresses of a host at the time `now` (s, of `clock.steady`); the last known ones if it
-- cannot be resolved. in_use: a known one, or nil.
function _M.addresses(host, now, in_use)
    if is_address(host) then
        return { host }
    end
    local known = cache[host] or in_use and { addresses = { in_use }, expires_at = 0 }
    if known and (now < known.expires_at or now < paused_until) then
        return known.addresses
    end
    local began = clock.steady()
    local resolved = look_up(host)
    local passed = clock.steady() - began
    local took = math.min(passed, LONGEST_S)
    now = now + passed
    spent = spent + took
    if spent > SLOW_S then
        paused_until, spent = now + PAUSE * spent, 0
    end
    local addresses = resolved or known and known.addresses or {}
    local seconds = seconds_of(addresses, resolved ~= nil, took, passed > LONGEST_S)
    cache[host] = { addresses = addresses, expires_at = now + seconds }
    return addresses
end

--- Removes names that have not been resolved for EVICT_AFTER_S.
function _M.evict(now)
    for host, cached in pairs(cache) do
        if now > cached.expires_at + EVICT_AFTER_S then
            cache[host] = nil
        end
    end
end

return _M
