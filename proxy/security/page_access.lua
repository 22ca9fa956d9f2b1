--- Who may see nginx's own pages. Instances decide, as they do for all other requests: nginx asks
-- one of them for a page that needs the same scope, with the token of the client.

local balance = require "proxy.balance"
local clock = require "proxy.telemetry.clock"
local crypto = require "proxy.security.crypto"
local http_client = require "proxy.http_client"

local _M = {}

local MAX_ASKED = 3
local OPTIONS = { seconds = 0.8, purpose = "page-access" }
-- requests of this worker to instances at once; a client above it gets 503
local MAX_IN_FLIGHT = 32
-- For this time, a token that was accepted stays accepted if no instance answers: then people need
-- the pages most
local KEPT_S = 300
local NO_REPLICAS = {}
-- the status for a client with the scope, if it is not 200: instances do not have this page
local ALLOWED_STATUS = { ["/proxy/health"] = 404 }
-- of a refusal
local PASSED_ON = { "Content-Type", "WWW-Authenticate", "Retry-After" }

-- The tokens that all workers have accepted, and until when they count. The times are by
-- clock.steady(), because the dictionary's own expiry follows the time of day, which may be set
-- back
local accepted = ngx.shared.queryable_page_access
local in_flight = 0

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

--- Whether the answer is the page, or 404 for one that instances do not have. An instance always
-- sends its epoch: another program may have its address now.
local function is_permission(answer, path)
    return answer.status == (ALLOWED_STATUS[path] or 200) and answer.headers["topology-epoch"]
end

--- Returns the answer of the first instance that decides. If none decides, returns the last answer
-- with status 500 or more; nil if there is none.
local function ask(current, path, lines)
    local undecided
    for _, backend in ipairs(balance.others(current, NO_REPLICAS, MAX_ASKED)) do
        local answer = http_client.get(
            backend.address, backend.port, path, lines, backend.tls_name, OPTIONS)
        if answer and answer.status >= 500 then
            undecided = answer
        elseif answer and (answer.status >= 400 or is_permission(answer, path)) then
            return answer
        end
    end
    return undecided
end

--- Whether the client may see a page. current: the topology; like: the path of a page of instances
-- that needs the same scope (an unknown path needs any); var: ngx.var. Returns true; or false and
-- the refusal of an instance, {status, headers, body}, or nil if no instance answers.
function _M.allows(current, like, var)
    if #current.token_headers == 0 then
        return true
    end
    local lines = token_lines(current.token_headers, ngx.req.get_headers())
    local known = crypto.hash(table.concat({ like, unpack(lines) }, "\n"))
    local sender = var.http_x_forwarded_for
    -- For the audit log. And with mutual TLS, it shows that the certificate is not the client's
    -- (backend/security/mutual_tls.py)
    lines[#lines + 1] = "X-Forwarded-For: "
        .. (sender and sender .. ", " or "") .. var.remote_addr
    local ok, answer = true, nil
    if in_flight < MAX_IN_FLIGHT then
        in_flight = in_flight + 1
        ok, answer = pcall(ask, current, like, lines)
        in_flight = in_flight - 1
    end
    if not ok then
        error(answer, 0)
    end
    if not answer or answer.status >= 500 then
        -- an older version, before a reload, has stored `true`
        return (tonumber((accepted:get(known))) or 0) > clock.steady(), answer
    end
    if is_permission(answer, like) then
        accepted:set(known, clock.steady() + KEPT_S, KEPT_S)
        return true
    end
    accepted:delete(known)
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
