--- The variables of the audit log in nginx.conf: it has the requests that nginx itself refuses.

local _M = {}

local MAX_BYTES = 200

--- The end of what a client claims, without bytes that make a line invalid JSON.
local function printable(text)
    local ending = (text or ""):sub(-MAX_BYTES)
    return (ending:gsub("[^\32-\126]", "?"))
end

--- Call when a request is refused. var: ngx.var; code: of the problem.
function _M.refused(var, code)
    var.queryable_refusal = code
    if var.realip_remote_addr ~= var.remote_addr then
        var.queryable_proxy = var.realip_remote_addr
    end
    var.queryable_claimed_client = printable(var.http_x_forwarded_for)
    var.queryable_claimed_id = printable(var.http_x_request_id)
end

return _M
