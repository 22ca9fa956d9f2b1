--- The proxy's own errors, as RFC 9457 problem documents. Clients never see a bare 502 or 504.

local cjson = require "cjson.safe"

local _M = {}

local RETRY_AFTER_S = 1

-- status, title and detail by code
local PROBLEMS = {
    ["no-topology"] = { 503, "No topology yet",
        "The proxy has not received the topology from any backend yet. Try again." },
    ["no-backend"] = { 503, "No backend answers",
        "None of the backends that were tried answered. Try again." },
    ["bad-request"] = { 400, "Bad request",
        "The request is not valid HTTP, or its path is invalid. Send keys with a NUL byte, and "
        .. "keys such as ../.., with ?encoding=base64url." },
    ["no-such-resource"] = { 404, "Not found",
        "Unknown path. GET /views lists the views and their paths." },
    ["request-timeout"] = { 408, "Request time-out", "The request did not arrive in time." },
    ["method-not-allowed"] = { 405, "Method not allowed",
        "The proxy does not allow this method." },
    ["body-too-large"] = { 413, "Request body too large", "Send the request in smaller parts." },
    ["uri-too-long"] = { 414, "URI too long",
        "The key is too long for a URL. POST it to /views/{view}/search or /views/{view}/batch." },
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
    [431] = "headers-too-large",
    [501] = "not-implemented",
    [502] = "no-backend",
    [503] = "no-backend",
    [504] = "no-backend",
}

--- Ends the request with a problem.
function _M.send(code)
    local status, body = PROBLEMS[code][1], BODIES[code]
    ngx.status = status
    ngx.header["Content-Type"] = "application/problem+json"
    ngx.header["Content-Length"] = #body
    if status == 503 then
        ngx.header["Retry-After"] = RETRY_AFTER_S
    end
    ngx.print(body)
    return ngx.exit(ngx.HTTP_OK)
end

--- Content phase of requests that nginx itself rejects; the problem depends on nginx's status.
function _M.content()
    -- a client may not request the internal path
    local status = ngx.req.is_internal() and ngx.status or 400
    return _M.send(BY_STATUS[status] or "internal")
end

return _M
