--- Resolves host names with the system's resolver (/etc/hosts, DNS, search domains), because
-- nginx's balancer takes only addresses. getaddrinfo(3) blocks the worker, so only discovery's
-- timer calls it; answers are cached, and nginx.conf shortens its time-outs. An address is returned
-- unchanged. Linux only: the structure below is that of glibc and musl.

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
local TTL_S = 10
local FAILURE_TTL_S = 2
-- each refresh of the topology resolves the names in use; refreshes are at most an hour apart
local EVICT_AFTER_S = 2 * 3600

local _M = {}

local cache = {}

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

--- The addresses of a host at the time `now` (s); the last known ones if it cannot be resolved.
function _M.addresses(host, now)
    if is_address(host) then
        return { host }
    end
    local cached = cache[host]
    if cached and now < cached.expires_at then
        return cached.addresses
    end
    local addresses = look_up(host)
    if addresses then
        cache[host] = { addresses = addresses, expires_at = now + TTL_S }
    else
        local last_known = cached and cached.addresses or {}
        cache[host] = { addresses = last_known, expires_at = now + FAILURE_TTL_S }
    end
    return cache[host].addresses
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
