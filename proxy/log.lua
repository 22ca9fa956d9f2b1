--- Header filter and log phases: update the state of the backend that answered, and set the
-- variables of the access log. Hot path: see route.

local balance = require "proxy.balance"
local coalescer = require "proxy.coalescer"

local _M = {}

-- A 503 that a retry at another backend cannot change arrives as 530: see Queryable-Final-Status in
-- nginx.conf
local NON_RETRYABLE, UNAVAILABLE = 530, 503

--- Header filter phase of every response. The next point read can be sent now, even if the client
-- reads this answer slowly.
function _M.header_filter()
    if ngx.status == NON_RETRYABLE then
        ngx.status = UNAVAILABLE
    end
    coalescer.finish_leader(ngx.var, false)
end

--- Log phase of every request.
function _M.log()
    local var = ngx.var
    if var.queryable_batch and var.queryable_batch ~= "" then
        return
    end
    -- the client may have disconnected before the answer arrived
    coalescer.finish_leader(var, false)
    local ctx = ngx.ctx
    local backend = ctx.backend
    if not backend then
        -- nginx clears the context when it redirects a request, as it does to send a problem
        if not balance.was_denied(var) then
            balance.record_last_failure(var)
            var.queryable_attempts = balance.count_attempts(var)
        end
        return
    end
    var.queryable_attempts = ctx.earlier_attempts + ctx.attempt
    local epoch = var.upstream_http_topology_epoch
    if epoch then
        balance.answered(backend, epoch)
    end
end

return _M
