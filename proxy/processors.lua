--- GET /processors of one backend: its topology, or 304 if it is the one that the caller has.

local http_client = require "proxy.http_client"
local signing = require "proxy.security.signing"

local _M = {}

local PATH = "/processors"

--- Asks the backend at address:port. tls_name: see `connect` of http_client. etag: that of the
-- answer that the caller has, or nil. Returns {status, headers, body}, where status is 200 or, with
-- an etag, 304; or nil and an error.
function _M.get(address, port, tls_name, etag)
    -- backends recognise these lines in this order (backend/wire/plain_requests.py)
    local lines = { "Accept: application/json" }
    if etag then
        lines[2] = "If-None-Match: " .. etag
    end
    -- "*": the instance's id may not be known yet
    local signature = signing.sign("GET", PATH, "*", "")
    if signature then
        lines[#lines + 1] = "Queryable-Signature: " .. signature
    end
    local response, err = http_client.get(address, port, PATH, lines, tls_name)
    if not response then
        return nil, err
    end
    if response.status == 200 or etag and response.status == 304 then
        return response
    end
    return nil, "status " .. response.status
end

return _M
