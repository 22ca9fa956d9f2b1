--- The proxy's own errors, as RFC 9457 problem documents. Clients never see a bare 502 or 504.

local audit = require "proxy.telemetry.audit"
local balance = require "proxy.balance"
local cjson = require "cjson.safe"
local metrics = require "proxy.metrics"

local _M = {}

local RETRY_AFTER_S = 1
-- the only problem with status 503 that does not ask for a retry
local NO_ANSWER = "no-answer"
local IS_READ = { GET = true, HEAD = true }
-- resources below /views/{view}/ from which a POST only reads
local IS_QUERY = { batch = true, search = true }

-- status, title and detail by code
local PROBLEMS = {
    ["no-topology"] = { 503, "No topology yet",
        "The proxy has not received the topology from any backend yet. Try again." },
    ["no-backend"] = { 503, "No backend answers",
        "None of the backends that were tried answered. Try again." },
    [NO_ANSWER] = { 503, "No answer",
        "The backend that got the request did not answer. The request may have been processed." },
    ["overloaded"] = { 503, "Overloaded", "The instance has too many requests. Try again." },
    ["bad-request"] = { 400, "Bad request",
        "The request is not valid HTTP, or its path is invalid. Send keys with a NUL byte, and "
        .. "keys such as ../.., with ?encoding=base64url." },
    ["cross-site"] = { 403, "Forbidden", "A page of another site sent this request." },
    ["host-not-allowed"] = { 403, "Forbidden",
        "The server does not have the name in Host. Use its IP address, or add the name to "
        .. "QUERYABLE_ALLOWED_HOSTS of the backends." },
    ["no-such-resource"] = { 404, "Not found",
        "Unknown path. GET /views lists the views and their paths." },
    ["request-timeout"] = { 408, "Request time-out", "The request did not arrive in time." },
    ["method-not-allowed"] = { 405, "Method not allowed",
        "The proxy does not allow this method." },
    ["body-too-large"] = { 413, "Request body too large", "Send the request in smaller parts." },
    ["uri-too-long"] = { 414, "URI too long",
        "The URL is too long. POST a long key to /views/{view}/search or /views/{view}/batch, and "
        .. "a long cursor or bound of a page as JSON to the path of the page." },
    ["too-many-requests"] = { 429, "Too many requests",
        "The client has sent too many requests, or has too many open connections." },
    ["quota-exceeded"] = { 429, "Too many requests", "The quota of the view is used up." },
    ["headers-too-large"] = { 431, "Request headers too large", "Send fewer or shorter headers." },
    ["not-implemented"] = { 501, "Not implemented", "Unsupported transfer coding." },
    ["internal"] = { 500, "Internal error", "The proxy failed; see its error log." },
}

-- by code; the members have the same order as in the backends' problems
local BODIES = {}
for code, problem in pairs(PROBLEMS) do
    local form = '{"type":"urn:queryable:%s","title":%s,"status":%d,"code":"%s","detail":%s}'
    BODIES[code] = form:format(
        code, cjson.encode(problem[2]), problem[1], code, cjson.encode(problem[3]))
end

local BY_STATUS = {
    [400] = "bad-request",
    [405] = "method-not-allowed",
    [408] = "request-timeout",
    [413] = "body-too-large",
    [414] = "uri-too-long",
    [429] = "too-many-requests",
    [431] = "headers-too-large",
    [501] = "not-implemented",
    [502] = "no-backend",
    [503] = "no-backend",
    [504] = "no-backend",
}

--- Ends the request with a problem. retry_after (s): nil for RETRY_AFTER_S, if a retry may help.
function _M.send(code, retry_after)
    local status, body = PROBLEMS[code][1], BODIES[code]
    ngx.status = status
    if status == 403 or status == 429 then
        audit.refused(ngx.var, code)
    end
    ngx.header["Content-Type"] = "application/problem+json"
    ngx.header["Content-Length"] = #body
    if status == 503 and code ~= NO_ANSWER or status == 429 then
        ngx.header["Retry-After"] = retry_after or RETRY_AFTER_S
    end
    ngx.print(body)
    return ngx.exit(ngx.HTTP_OK)
end

--- Returns the problem code for a request that no backend has answered. The code says whether a
-- client may send the request again.
function _M.unanswered(var)
    local query = (var.request_uri or ""):match("^/views/[^/?]+/(%a+)")
    if IS_READ[var.request_method] or IS_QUERY[query] or balance.nothing_was_sent(var) then
        return "no-backend"
    end
    return NO_ANSWER
end

--- Content phase of requests that nginx itself rejects; the problem depends on nginx's status.
function _M.content()
    -- a client may not request the internal path
    local status = ngx.req.is_internal() and ngx.status or 400
    if status == 429 then
        metrics.count_limited()
    end
    local code = BY_STATUS[status] or "internal"
    return _M.send(code == "no-backend" and _M.unanswered(ngx.var) or code)
end

return _M
