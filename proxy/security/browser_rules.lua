--- What pages in browsers may do. Backends decide (backend/security/browser_rules.py); here are the
-- rules for what nginx answers itself: its own pages, and coalesced reads, whose headers do not
-- reach a backend. Pure.

local _M = {}

local DEFAULT_PORTS = { http = ":80", https = ":443" }
-- hosts whose decision is remembered, and bytes of such a host: a name has 253 at most
local MAX_KNOWN, MAX_KNOWN_BYTES = 1000, 300

local function is_ipv4(name)
    local a, b, c, d = name:match("^(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)$")
    return a ~= nil and tonumber(a) < 256 and tonumber(b) < 256 and tonumber(c) < 256
        and tonumber(d) < 256
end

local function is_name(name)
    return name:find("^[%w_.-]+$") and name:sub(1, 1) ~= "." and not name:find("..", 1, true)
end

--- The rules for the names that the backends report: a list, or nil.
function _M.new(names)
    local rules = { names = {}, known = {}, count = 0 }
    for _, name in ipairs(type(names) == "table" and names or {}) do
        rules.names[#rules.names + 1] = tostring(name):lower()
    end
    return rules
end

local function decide(rules, host)
    local name, port = host:match("^([^:]*)(.*)$")
    if host:sub(1, 1) == "[" then
        name, port = host:match("^(%[[%x:.]+%])(.*)$")
    end
    if not name or not port:find("^$") and not port:find("^:%d?%d?%d?%d?%d?$") then
        return false
    end
    if name:sub(1, 1) == "[" then
        return true
    end
    name = name:lower():gsub("%.$", "")
    if is_ipv4(name) then
        return true
    end
    if not is_name(name) then
        return false
    end
    if not name:find(".", 1, true) or name:sub(-10) == ".localhost" then
        return true
    end
    for _, allowed in ipairs(rules.names) do
        local is_suffix = allowed:sub(1, 1) == "."
        if allowed == "*" or name == allowed
            or is_suffix and #name > #allowed and name:sub(-#allowed) == allowed
        then
            return true
        end
    end
    return false
end

--- Whether the value of a Host header is allowed; nil or empty: yes, browsers always send it.
-- Costs a look-up.
function _M.allows_host(rules, host)
    if not host or host == "" then
        return true
    end
    local known = rules.known[host]
    if known == nil then
        known = decide(rules, host)
        if #host > MAX_KNOWN_BYTES then
            return known
        end
        if rules.count >= MAX_KNOWN then
            rules.known, rules.count = {}, 0
        end
        rules.known[host], rules.count = known, rules.count + 1
    end
    return known
end

local function without_port(authority, port)
    return authority:sub(-#port) == port and authority:sub(1, -#port - 1) or authority
end

--- The code of the problem for one of nginx's own pages; nil if it is answered.
-- host, origin, site: the values of Host, Origin and Sec-Fetch-Site, or nil.
function _M.refuses(rules, host, origin, site)
    if not _M.allows_host(rules, host) then
        return "host-not-allowed"
    end
    if origin then
        local scheme, authority = origin:lower():match("^(https?)://(.+)$")
        local port, own_host = DEFAULT_PORTS[scheme], (host or ""):lower()
        if not port or without_port(authority, port) ~= without_port(own_host, port) then
            return "cross-site"
        end
    elseif site and site:find("cross-site", 1, true) then
        return "cross-site"
    end
    return nil
end

return _M
