--- Errors of the proxy's own, as RFC 9457 problems. A client never sees a bare 502 or 504.

local cjson = require "cjson.safe"

local _M = {}

local RETRY_AFTER_S = 1

-- status, title and detail by code
local PROBLEMS = {
    ["no-topology"] = { 503, "No topology yet",
        "The proxy has not yet learned from any backend who holds what. Try again." },
    ["no-backend"] = { 503, "No backend answers",
        "None of the backends that were asked has answered. Try again." },
    ["bad-request"] = { 400, "Bad request",
        "The request is not valid HTTP, or its path cannot be read. Keys with a NUL byte, and keys "
        .. "that look like ../.., go as ?encoding=base64url." },
    ["no-such-resource"] = { 404, "Not found",
        "Nothing is here. GET /views lists the views and their paths." },
    ["request-timeout"] = { 408, "Request time-out", "The request did not arrive in time." },
    ["method-not-allowed"] = { 405, "Method not allowed",
        "The proxy does not pass on this method." },
    ["body-too-large"] = { 413, "Request body too large", "Send the request in smaller parts." },
    ["uri-too-long"] = { 414, "URI too long",
        "The key is too long for a URL. POST /views/{view}/search or /batch take longer ones." },
    ["headers-too-large"] = { 431, "Request headers too large", "Send fewer or shorter headers." },
    ["not-implemented"] = { 501, "Not implemented",
        "The proxy does not know this transfer coding." },
    ["internal"] = { 500, "Internal error", "The proxy failed; its error log says why." },
}

-- by code; the members in the order in which the backends write them
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

--- The content of what nginx itself refuses: by the status it has chosen.
function _M.content()
    -- asked for from outside, its path is no more than a bad one
    local status = ngx.req.is_internal() and ngx.status or 400
    return _M.send(BY_STATUS[status] or "internal")
end

return _M
