--- Settings from the environment, read once when nginx starts or reloads.

local _M = {}

local MAX_FILE_BYTES = 1024 * 1024
-- s; nginx counts time in ms, and a timer of 0 ms would never run
local MIN_S, MAX_S = 0.01, 3600

--- "host:port,host:port" as a list of {host, port, tls_name}; "[::1]:8081" for IPv6, and
-- "https://host:port" for TLS. tls_name of a backend: see topology. The argument tls_name is for
-- all backends; if it is nil, each backend has its host. Returns nil and the error if the text is
-- invalid.
function _M.backends(text, tls_name)
    local backends = {}
    for entry in (text .. ","):gmatch("%s*([^,]-)%s*,") do
        if entry ~= "" then
            local scheme, rest = entry:match("^(https?)://(.*)$")
            local address = rest or entry
            local host, port = address:match("^(%[[%x:.]+%]):(%d+)$")
            if not host then
                host, port = address:match("^([%w._-]+):(%d+)$")
            end
            port = tonumber(port)
            if not port or port < 1 or port > 65535 then
                return nil, "'" .. entry .. "' is not host:port or https://host:port"
            end
            backends[#backends + 1] = {
                host = host,
                port = port,
                tls_name = scheme == "https" and (tls_name or host) or nil,
            }
        end
    end
    if #backends == 0 then
        return nil, "it is empty"
    end
    return backends
end

local function seconds(name, default)
    local text = os.getenv(name)
    if not text or text == "" then
        return default
    end
    -- digits only: tonumber also reads "nan", "inf" and hexadecimal numbers
    local value = text:find("^[%d.]+$") and tonumber(text)
    if not value or value < MIN_S or value > MAX_S then
        error(name .. ": '" .. text .. "' is not a number of seconds from " .. MIN_S .. " to "
              .. MAX_S .. "; the default is " .. default, 0)
    end
    return value
end

local function whole_number(name, default, max)
    local text = os.getenv(name)
    if not text or text == "" then
        return default
    end
    local value = text:match("^%d+$") and tonumber(text)
    if not value or value > max then
        error(name .. ": '" .. text .. "' is not a whole number from 0 to " .. max
              .. "; the default is " .. default, 0)
    end
    return value
end

local function optional(name)
    local text = os.getenv(name)
    return text ~= "" and text or nil
end

--- Parses the file that a variable names; nil if it names none.
local function parse_file(name, parse)
    local path = optional(name)
    if not path then
        return nil
    end
    local file, err = io.open(path, "rb")
    if not file then
        error(name .. ": cannot read " .. err, 0)
    end
    local content = file:read(MAX_FILE_BYTES)
    file:close()
    local parsed
    parsed, err = parse(content or "")
    if not parsed then
        error(name .. ": " .. path .. " is not valid PEM: " .. err, 0)
    end
    return parsed
end

--- The proxy's own certificate chain and key, for mutual TLS: {chain, key}; nil if there is none.
-- nginx is still root when it reads them.
local function client_certificate()
    local chain_name, key_name = "QUERYABLE_PROXY_TLS_CERT_FILE", "QUERYABLE_PROXY_TLS_KEY_FILE"
    if (optional(chain_name) == nil) ~= (optional(key_name) == nil) then
        error("set both " .. chain_name .. " and " .. key_name .. ", or neither", 0)
    end
    if not optional(chain_name) then
        return nil
    end
    local ssl = require "ngx.ssl"
    return {
        chain = parse_file(chain_name, ssl.parse_pem_cert),
        key = parse_file(key_name, ssl.parse_pem_priv_key),
    }
end

local function has_tls(backends)
    for _, backend in ipairs(backends) do
        if backend.tls_name then
            return true
        end
    end
    return false
end

--- Reads all settings. An error names the variable, what is wrong, and what is valid.
function _M.load()
    local text = os.getenv("QUERYABLE_BACKENDS")
    if not text or text == "" then
        text = "127.0.0.1:8081"
    end
    _M.tls_name = optional("QUERYABLE_PROXY_TLS_NAME")
    local backends, err = _M.backends(text, _M.tls_name)
    if not backends then
        error("QUERYABLE_BACKENDS: " .. err .. "; list one or more as host:port,host:port", 0)
    end
    _M.seeds = backends
    _M.has_tls = has_tls(backends)
    _M.client_certificate = client_certificate()
    _M.refresh = seconds("QUERYABLE_PROXY_REFRESH", 1)
    _M.read_timeout = seconds("QUERYABLE_PROXY_READ_TIMEOUT", 0.4)
    local secret_file = os.getenv("QUERYABLE_CLUSTER_SECRET_FILE")
    _M.cluster_secret_file = secret_file ~= "" and secret_file or nil
    _M.batches = whole_number("QUERYABLE_PROXY_BATCHES", 1, 16)
end

return _M
