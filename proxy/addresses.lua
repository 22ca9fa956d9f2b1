--- The address of a host to which nginx sends requests: nginx's balancer takes only one. A host may
-- have several addresses, such as an IPv6 and an IPv4 address, and the backend may listen at only
-- one of them. So the first address that accepts a connection is used. The functions may wait, so
-- call them only in timers.

local clock = require "proxy.telemetry.clock"
local resolver = require "proxy.resolver"

local _M = {}

local CONNECT_MS = 250
local MAX_TRIED = 4
-- Seconds. After a look-up that has blocked the worker for longer than BLOCKED_S, requests are
-- handled first: the next look-up waits for NEXT_TURN_S. nginx would run a timer of 0 s before the
-- requests
local BLOCKED_S, NEXT_TURN_S = 0.005, 0.001
-- pause before a host is tried again if none of its addresses has accepted a connection
local RETRY_S = 2

--- Pause before a host is tried again if one of its addresses has accepted a connection: the
-- backend may have restarted and may listen at another address.
_M.CHECK_S = 10

-- by host and port: {address, is_open, tried_at}; is_open: whether it has accepted a connection
local chosen = {}

local function contains(list, item)
    for _, candidate in ipairs(list) do
        if candidate == item then
            return true
        end
    end
    return false
end

local function accepts(address, port)
    local socket = ngx.socket.tcp()
    socket:settimeout(CONNECT_MS)
    local is_open = socket:connect(address, port)
    if is_open then
        socket:close()
    end
    return is_open
end

--- The first address that accepts a connection; nil if none does. preferred: the one to try first.
local function first_open(addresses, port, preferred)
    if accepts(preferred, port) then
        return preferred
    end
    for i = 1, math.min(#addresses, MAX_TRIED) do
        if addresses[i] ~= preferred and accepts(addresses[i], port) then
            return addresses[i]
        end
    end
    return nil
end

--- Returns the address of a host, and whether it is certain: the backend is known to listen there,
-- or the host has no other address. Returns nil if the host has no address. in_use: the address
-- that was used before, perhaps by another worker, or nil.
function _M.choose(host, port, in_use)
    local now = clock.steady()
    local addresses = resolver.addresses(host, now, in_use)
    if #addresses < 2 then
        return addresses[1], true
    end
    local name = host .. ":" .. port
    -- a resolver may change the order each time, and workers must not replace each other's choice
    local preferred = contains(addresses, in_use) and in_use or addresses[1]
    local known = chosen[name]
    if not known or known.address ~= preferred
        or now >= known.tried_at + (known.is_open and _M.CHECK_S or RETRY_S)
    then
        local open = first_open(addresses, port, preferred)
        known = { address = open or preferred, is_open = open ~= nil, tried_at = now }
        chosen[name] = known
    end
    return known.address, known.is_open
end

--- The address of a host that has backends at these ports: see `choose`.
local function choose_any(host, ports, in_use)
    local address = in_use
    for _, port in ipairs(ports) do
        local is_known
        address, is_known = _M.choose(host, port, address)
        if is_known then
            break
        end
    end
    return address
end

--- The addresses of all processors of a topology document, by host. in_use: the addresses that were
-- used before, by host, or nil. Connections to all hosts are tried at the same time, and the worker
-- does other work between look-ups.
function _M.choose_all(processors, in_use)
    local hosts, ports_of = {}, {}
    for _, processor in ipairs(processors) do
        local host, port = processor.host, processor.port
        if type(host) == "string" and type(port) == "number" then
            if not ports_of[host] then
                hosts[#hosts + 1], ports_of[host] = host, {}
            end
            table.insert(ports_of[host], port)
        end
    end
    local by_host, threads = {}, {}
    for i, host in ipairs(hosts) do
        local began = clock.steady()
        threads[i] = ngx.thread.spawn(choose_any, host, ports_of[host], in_use and in_use[host])
        if clock.steady() - began > BLOCKED_S then
            ngx.sleep(NEXT_TURN_S)
        end
    end
    for i, host in ipairs(hosts) do
        local ok, address = ngx.thread.wait(threads[i])
        by_host[host] = ok and address or nil
    end
    return by_host
end

return _M
