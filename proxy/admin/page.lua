--- The admin page while no backend answers. The page has no data, and is the same for everyone. So
-- nginx keeps the page that a backend has sent, in memory that outlives the workers. The page then
-- shows what nginx knows (/proxy/health).

local http_client = require "proxy.http_client"

local _M = {}

local shared = ngx.shared.queryable_topics

local PATH = "/admin"
local RETRY_AFTER_S = 1
local MAX_BYTES = 2 * 1024 * 1024

-- until a backend has sent the page: it loads itself again
local NO_PAGE = [[<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<meta name="color-scheme" content="light dark"><title>No backend answers</title></head>
<body><h1>No backend answers</h1>
<p>No backend has answered since nginx started. nginx asks those in QUERYABLE_BACKENDS again and
again, and this page appears as soon as one answers.
<a href="proxy/health">proxy/health</a> has the errors.</p></body></html>
]]
local NO_PAGE_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; "
    .. "frame-ancestors 'none'"

--- Whether the request is for the page; var: ngx.var.
function _M.is_wanted(var)
    local uri, method = var.request_uri, var.request_method
    return (uri == PATH or uri:sub(1, #PATH + 1) == PATH .. "?")
        and (method == "GET" or method == "HEAD")
end

--- Keeps the page of the backend at this address, unless the page of this epoch is already kept.
-- Call in a timer, after the topology was read from there.
function _M.keep(address, backend, epoch)
    if shared:get("page_epoch") == epoch then
        return
    end
    -- other workers need not ask at the same time; if this fails, a worker tries again later
    if not shared:add("page_asked", true, RETRY_AFTER_S) then
        return
    end
    local lines = { "Accept: text/html" }
    local response = http_client.get(address, backend.port, PATH, lines, backend.tls_name)
    -- 401: the page asks for a token
    if not response or response.status ~= 200 and response.status ~= 401 then
        return
    end
    local policy = response.headers["content-security-policy"]
    local kind = response.headers["content-type"] or ""
    if policy and kind:sub(1, 9) == "text/html" and #response.body <= MAX_BYTES then
        -- one value, so that a page is never sent with the policy of another one
        local ok, err = shared:set("page", policy .. "\n" .. response.body)
        if not ok then
            ngx.log(ngx.WARN, "cannot keep the admin page: ", err)
            return
        end
        shared:set("page_epoch", epoch)
    end
end

--- Ends the request with the page, as status 503.
function _M.answer()
    local kept = shared:get("page")
    local policy, text = NO_PAGE_POLICY, NO_PAGE
    if kept then
        policy, text = kept:match("^([^\n]*)\n(.*)$")
    end
    local headers = ngx.header
    ngx.status = 503
    headers["Content-Type"] = "text/html; charset=utf-8"
    headers["Content-Length"] = #text
    headers["Content-Security-Policy"] = policy
    headers["Referrer-Policy"] = "no-referrer"
    headers["Cache-Control"] = "no-cache"
    headers["Retry-After"] = RETRY_AFTER_S
    ngx.print(text)
    return ngx.exit(ngx.HTTP_OK)
end

return _M
