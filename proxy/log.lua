--- Header filter and log phases of forwarded requests: update the state of the backend that
-- answered, and set the variables of the access log. Hot path: see route.

local balance = require "proxy.balance"
local discovery = require "proxy.discovery"
local labels = require "proxy.telemetry.labels"
local latencies = require "proxy.telemetry.latencies"
local metrics = require "proxy.metrics"
local now = require("proxy.telemetry.clock").now
local query = require "proxy.query"
local quota = require "proxy.security.quota"

local _M = {}

-- A 503 that a retry at another backend cannot change arrives as 530: see Queryable-Final-Status in
-- nginx.conf
local NON_RETRYABLE, UNAVAILABLE = 530, 503

-- refused because of the token, its scopes or the method: the backends do not count such requests
-- in the quota of a view
local IS_REFUSED = { [401] = true, [403] = true, [405] = true }

local shared = ngx.shared.queryable_topics

--- Header filter phase.
function _M.header_filter()
    if ngx.status == NON_RETRYABLE then
        ngx.status = UNAVAILABLE
    end
end

local function count_retries(attempts)
    if attempts > 1 then
        metrics.count_retries(attempts - 1)
    end
end

--- Counts a request that no backend has answered, or that has no key.
local function observe_other(var, seconds)
    local uri, view = var.request_uri or "", var.queryable_view or ""
    local route
    if view ~= "" then
        route = labels.KEY
    else
        route = labels.route(uri)
        local current = discovery.topology()
        local queried = current and query.view_of(uri, current.views)
        view = queried and queried.name or ""
    end
    local role = labels.role(var.upstream_http_served_by)
    latencies.observe(latencies.series(route, view, role, ngx.status), seconds)
end

--- Counts a request that a backend has answered.
local function observe(var, ctx)
    local seconds = now() - ctx.began
    if not ctx.label then
        return observe_other(var, seconds)
    end
    local role = labels.role(var.upstream_http_served_by)
    latencies.observe(latencies.series(ctx.label, var.queryable_view, role, ngx.status), seconds)
end

--- Takes a request that a backend has refused out of the quota of its view.
local function uncount(var)
    local current, uri = discovery.topology(), var.request_uri
    local view = query.parse(uri, current.views) or query.view_of(uri, current.views)
    if view and view.quota then
        quota.give_back(shared, view.quota)
    end
end

--- Log phase.
function _M.log()
    local var = ngx.var
    local ctx = ngx.ctx
    local backend = ctx.backend
    if not backend then
        -- nginx clears the context when it redirects a request, as it does to send a problem
        if not balance.was_denied(var) then
            balance.record_last_failure(var)
            var.queryable_attempts = balance.count_attempts(var)
        end
        count_retries(tonumber(var.queryable_attempts) or 0)
        observe_other(var, tonumber(var.request_time) or 0)
        return
    end
    local attempts = ctx.earlier_attempts + ctx.attempt
    var.queryable_attempts = attempts
    count_retries(attempts)
    if balance.is_denied_503(var, ctx) then
        balance.count_denied()
    end
    observe(var, ctx)
    if IS_REFUSED[ngx.status] and var.queryable_counted == "1" then
        uncount(var)
    end
    local epoch = var.upstream_http_topology_epoch
    if epoch then
        balance.answered(backend, epoch)
    end
end

return _M
