--- TLS to backends for the connections that Lua opens: those that read the topology, and those of
-- coalesced reads. nginx itself opens those of all other requests; backend-tls.conf of the
-- deployment has the same for them (see README.md).

local settings = require "proxy.settings"

local _M = {}

local MAX_FILE_BYTES = 1024 * 1024

-- the proxy's own certificate chain and key; nil without mutual TLS
local certificate, key

local function read(name, path)
    local file, err = io.open(path, "rb")
    local content
    if file then
        content, err = file:read(MAX_FILE_BYTES + 1)
        file:close()
    end
    if not content or #content > MAX_FILE_BYTES then
        error(name .. ": cannot read " .. (err or path .. ": it is empty or too large"), 0)
    end
    return content
end

--- Reads the proxy's certificate when nginx starts or reloads, while it may still read the key. An
-- error names the variable.
function _M.load()
    certificate, key = nil, nil
    if not settings.tls_cert_file then
        return
    end
    local ssl = require "ngx.ssl"
    local err
    certificate, err = ssl.parse_pem_cert(read("QUERYABLE_PROXY_TLS_CERT_FILE",
                                               settings.tls_cert_file))
    if not certificate then
        error("QUERYABLE_PROXY_TLS_CERT_FILE: " .. settings.tls_cert_file
              .. " has no certificate in PEM: " .. err, 0)
    end
    key, err = ssl.parse_pem_priv_key(read("QUERYABLE_PROXY_TLS_KEY_FILE", settings.tls_key_file))
    if not key then
        error("QUERYABLE_PROXY_TLS_KEY_FILE: " .. settings.tls_key_file
              .. " has no key in PEM: " .. err, 0)
    end
end

--- Begins TLS on a connected socket: the backend's certificate must have the name `name`, and come
-- from an authority of `lua_ssl_trusted_certificate`. True; or nil and an error.
function _M.handshake(socket, name)
    local ok, err
    if certificate then
        ok, err = socket:setclientcert(certificate, key)
        if not ok then
            return nil, "TLS: " .. err
        end
    end
    ok, err = socket:sslhandshake(false, name, true)
    if not ok then
        return nil, "TLS: " .. err
    end
    return true
end

return _M
