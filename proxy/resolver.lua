--- IP addresses of host names, by the system's own resolver (/etc/hosts, DNS, search domains).
-- nginx's balancer takes addresses only. getaddrinfo(3) blocks the worker while it asks, so it is
-- called by discovery's timer alone, for names only, and what it said is kept for a while;
-- nginx.conf shortens its time-outs. A plain address costs nothing.
-- Linux: the layout below is glibc's and musl's.

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
local KEPT_S = 10
local FAILURE_KEPT_S = 2
-- a name that is in use is asked for with each refresh of the map, an hour apart at most
local FORGOTTEN_S = 2 * 3600

local _M = {}

local kept = {}

local function is_address(host)
    return host:find("^%d+%.%d+%.%d+%.%d+$") or host:find("^%[.*%]$")
end

--- All addresses of a name, IPv6 ones in brackets; nil if there is none.
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

--- The addresses of a host at the time `now` (s); the last known ones while it cannot be resolved.
function _M.addresses(host, now)
    if is_address(host) then
        return { host }
    end
    local known = kept[host]
    if known and now < known.till then
        return known.addresses
    end
    local addresses = look_up(host)
    if addresses then
        kept[host] = { addresses = addresses, till = now + KEPT_S }
    else
        kept[host] = { addresses = known and known.addresses or {}, till = now + FAILURE_KEPT_S }
    end
    return kept[host].addresses
end

--- Forgets names that nobody has asked for lately.
function _M.forget(now)
    for host, known in pairs(kept) do
        if now > known.till + FORGOTTEN_S then
            kept[host] = nil
        end
    end
end

return _M
