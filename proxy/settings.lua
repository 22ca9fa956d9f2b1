--- Settings from the environment, read once when nginx starts or reloads.

local _M = {}

--- "host:port,host:port" as a list of {host, port}; "[::1]:8081" for IPv6. Nil and the error.
function _M.backends(text)
    local backends = {}
    for entry in (text .. ","):gmatch("%s*([^,]-)%s*,") do
        if entry ~= "" then
            local host, port = entry:match("^(%[[%x:.]+%]):(%d+)$")
            if not host then
                host, port = entry:match("^([%w._-]+):(%d+)$")
            end
            port = tonumber(port)
            if not port or port < 1 or port > 65535 then
                return nil, "'" .. entry .. "' is not host:port"
            end
            backends[#backends + 1] = { host = host, port = port }
        end
    end
    if #backends == 0 then
        return nil, "it is empty"
    end
    return backends
end

local function positive_number(name, default)
    local text = os.getenv(name)
    if not text or text == "" then
        return default
    end
    -- digits only: tonumber also reads "nan", "inf" and hexadecimal numbers
    local value = text:find("^[%d.]+$") and tonumber(text)
    if not value or value <= 0 or value > 3600 then
        error(name .. ": '" .. text .. "' is not a number of seconds above 0 and up to 3600; "
              .. "the default is " .. default, 0)
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

--- Reads all settings. An error names the variable, what is wrong, and what is valid.
function _M.load()
    local text = os.getenv("QUERYABLE_BACKENDS")
    if not text or text == "" then
        text = "127.0.0.1:8081"
    end
    local backends, err = _M.backends(text)
    if not backends then
        error("QUERYABLE_BACKENDS: " .. err .. "; list one or more as host:port,host:port", 0)
    end
    _M.seeds = backends
    _M.refresh = positive_number("QUERYABLE_PROXY_REFRESH", 1)
    _M.read_timeout = positive_number("QUERYABLE_PROXY_READ_TIMEOUT", 0.4)
    local secret_file = os.getenv("QUERYABLE_CLUSTER_SECRET_FILE")
    _M.cluster_secret_file = secret_file ~= "" and secret_file or nil
    _M.batches = whole_number("QUERYABLE_PROXY_BATCHES", 1, 16)
end

return _M
