--- Who may see nginx's own pages. Instances decide, as they do for all other requests: nginx asks
-- one of them for a page that needs the same scope, with the token of the client.

local balance = require "proxy.balance"
local crypto = require "proxy.security.crypto"
local http_client = require "proxy.http_client"

local _M = {}

local MAX_ASKED = 3
-- A token that was accepted is accepted for so long if no instance answers: then people need the
-- pages most
local KEPT_S = 300
local PREFIX = "page_access:"
local NO_REPLICAS = {}
-- to a client with the scope: that page, or 404 for one that instances do not have
local IS_ALLOWED = { [200] = true, [404] = true }
-- of a refusal
local PASSED_ON = { "Content-Type", "WWW-Authenticate", "Retry-After" }

local shared = ngx.shared.queryable_topics

--- The headers of the client that may have its token, as lines.
local function token_lines(names, headers)
    local lines = {}
    for _, name in ipairs(names) do
        local value = headers[name]
        if type(value) == "string" then
            lines[#lines + 1] = name .. ": " .. value
        end
    end
    return lines
end

--- The answer of the first instance that decides; nil if none does.
local function ask(current, path, lines)
    for _, backend in ipairs(balance.others(current, NO_REPLICAS, MAX_ASKED)) do
        local answer = http_client.get(
            backend.address, backend.port, path, lines, backend.tls_name)
        if answer and answer.status < 500 then
            return answer
        end
    end
    return nil
end

--- Whether the client may see a page. current: the topology; like: the path of a page of instances
-- that needs the same scope (an unknown path needs any); var: ngx.var. Returns true; or false and
-- the refusal of an instance, {status, headers, body}, or nil if no instance answers.
function _M.allows(current, like, var)
    if #current.token_headers == 0 then
        return true
    end
    local lines = token_lines(current.token_headers, ngx.req.get_headers())
    local known = PREFIX .. crypto.hash(table.concat({ like, unpack(lines) }, "\n"))
    local sender = var.http_x_forwarded_for
    -- For the audit log. And with mutual TLS, it shows that the certificate is not the client's
    -- (backend/security/mutual_tls.py)
    lines[#lines + 1] = "X-Forwarded-For: "
        .. (sender and sender .. ", " or "") .. var.remote_addr
    local answer = ask(current, like, lines)
    if not answer then
        return shared:get(known) ~= nil
    end
    if IS_ALLOWED[answer.status] then
        shared:set(known, true, KEPT_S)
        return true
    end
    shared:delete(known)
    return false, answer
end

--- Ends the request with the refusal of an instance.
function _M.refuse(answer)
    ngx.status = answer.status
    for _, name in ipairs(PASSED_ON) do
        ngx.header[name] = answer.headers[name:lower()]
    end
    ngx.header["Content-Length"] = #answer.body
    ngx.print(answer.body)
    return ngx.exit(ngx.HTTP_OK)
end

return _M
