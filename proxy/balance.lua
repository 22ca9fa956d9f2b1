--- Balancer phase: selects the backend and the time-outs of each attempt. Keeps this worker's
-- passive health and retry budget, and updates them with the outcome of each attempt.
-- Hot path: see route.

local balancer = require "ngx.balancer"
local clock = require "proxy.telemetry.clock"
local coalescer = require "proxy.reads.coalescer"
local discovery = require "proxy.discovery"
local metrics = require "proxy.metrics"
local passive_health = require "proxy.passive_health"
local retry_budget = require "proxy.retry_budget"
local settings = require "proxy.settings"
local signing = require "proxy.security.signing"
local topology = require "proxy.topology"

local steady = clock.steady

local _M = {}

-- Seconds, for point reads: a backend that hangs must not delay readers while another replica could
-- answer. (A stopped process still accepts connections: only the read time-out detects it.) A
-- backend itself may wait before it answers 503: 0.2 s, and 1 s for an offset, which needs the long
-- time-out (see route). Other requests have the time-outs of nginx.conf.
local POINT_CONNECT_S, POINT_SEND_S = 0.25, 1
local POINT_READ_S = settings.read_timeout
local LAST_POINT_READ_S = 5 * POINT_READ_S
-- added to the time that a backend waits for all others (backend/queries/retry.py): a backend that
-- waits must not look as if it hung
local FORWARD_MARGIN_S = 0.5

-- nginx retries these itself: GET and HEAD after any failure, POST only if nothing was sent
local IS_RETRIED = { GET = true, HEAD = true, POST = true }

-- Seconds after which nginx makes no further attempt: proxy_next_upstream_timeout of nginx.conf.
-- The time-outs of backends and of this proxy may be longer. So an attempt ends RETRY_MARGIN_S
-- before this time while another replica is left. Attempts that begin later have MIN_READ_S each.
local RETRY_S, RETRY_MARGIN_S, MIN_READ_S = 6, 0.5, 0.25

-- NGX_BUSY: ends the request as a failed attempt does
local NO_FURTHER_ATTEMPT = -3

-- this worker's own
local unhealthy = passive_health.new()
local budget = retry_budget.new()
_M.unhealthy, _M.budget = unhealthy, budget
local round_robin = 0

--- Call when the backend has answered; `epoch` is that of its topology.
function _M.answered(backend, epoch)
    passive_health.succeeded(unhealthy, backend.name)
    discovery.observe_epoch(epoch, backend)
end

--- The backend has failed a request that began at `started_at` (s, of `steady`).
local function failed(backend, started_at)
    passive_health.failed(unhealthy, backend.name, started_at, steady())
end

coalescer.init(_M.answered, failed)

--- Returns the candidates that speak the same protocol (HTTPS or HTTP) as the first one, and how
-- many of them are healthy. nginx needs to know the protocol before the first attempt. Instances
-- differ only while TLS is being turned on. If none of these candidates answers, another backend
-- forwards the request (@fallback).
local function alike(candidates, healthy)
    local is_tls = candidates[1].tls_name ~= nil
    local same, healthy_ones = {}, 0
    for i = 1, #candidates do
        if (candidates[i].tls_name ~= nil) == is_tls then
            same[#same + 1] = candidates[i]
            healthy_ones = healthy_ones + (i <= healthy and 1 or 0)
        end
    end
    return same, healthy_ones
end

--- Sets the backends to try, in order. In a read of one key (is_point), the first `healthy`
-- backends except the last of them get the short read time-out; no backend gets it if `healthy` is
-- 0. earlier_attempts: the number of attempts that were made before, such as before @fallback.
-- began: when the request began (s, of `clock`). label: the route of the request, if it has a key.
function _M.set_candidates(candidates, healthy, is_point, earlier_attempts, began, label)
    local ctx = ngx.ctx
    if settings.has_tls then
        candidates, healthy = alike(candidates, healthy)
        ngx.var.queryable_scheme = candidates[1].tls_name and "https" or "http"
    end
    if settings.cluster_secret_file then
        local var = ngx.var
        var.queryable_client_claim = signing.claim(var.remote_addr)
    end
    ctx.candidates = candidates
    ctx.healthy = healthy
    ctx.attempt = 0
    ctx.earlier_attempts = earlier_attempts
    ctx.is_point = is_point
    if is_point then
        local forward_timeout = discovery.topology().forward_timeout
        ctx.last_timeout = math.max(LAST_POINT_READ_S, forward_timeout + FORWARD_MARGIN_S)
    end
    ctx.began, ctx.label = began, label
end

--- Whether the retry budget allows another attempt. Takes it from the budget.
function _M.may_retry()
    if retry_budget.spend(budget) then
        return true
    end
    metrics.count_denied_retry()
    return false
end

--- Counts a retry that nginx did not make because the budget had no token when the last attempt
-- began. In this case nginx does not ask for another attempt.
function _M.count_denied()
    retry_budget.deny(budget)
    metrics.count_denied_retry()
end

--- Call if no replica has answered. Counts a retry at another replica if the budget did not allow
-- it.
function _M.count_denied_after(attempts, replicas)
    if attempts < #replicas and not retry_budget.has(budget) then
        _M.count_denied()
    end
end

--- Whether no backend has received any byte of the request, so that none can have processed it.
local function nothing_was_sent(var)
    -- bytes of each attempt: "0", or "0, 0"
    return not (var.upstream_bytes_sent or "1"):find("[1-9]")
end

_M.nothing_was_sent = nothing_was_sent

--- Records how the previous attempt failed. Returns whether another one is allowed.
local function after_failure(ctx, now)
    local backend = ctx.backend
    local _, status = balancer.get_last_failure()
    if status == 503 then
        passive_health.succeeded(unhealthy, backend.name)
    else
        passive_health.failed(unhealthy, backend.name, ctx.started_at, now)
        if status == 504 and ctx.has_short_timeout then
            ctx.slow = ctx.slow or backend
        end
    end
    -- nginx would send other requests again if a kept connection was closed
    return (IS_RETRIED[ngx.req.get_method()] or nothing_was_sent(ngx.var)) and _M.may_retry()
end

--- The read time-out (s) of an attempt that another one may follow.
local function before_next(ctx, seconds, now)
    return math.min(seconds, math.max(MIN_READ_S, ctx.retry_until - now))
end

--- Chooses the backend of one attempt.
function _M.run()
    local ctx = ngx.ctx
    local candidates, attempt, now = ctx.candidates, ctx.attempt + 1, steady()
    if attempt == 1 then
        ctx.retry_until = now + RETRY_S - RETRY_MARGIN_S
    elseif not after_failure(ctx, now) then
        ngx.var.queryable_attempts = ctx.earlier_attempts + ctx.attempt
        return ngx.exit(NO_FURTHER_ATTEMPT)
    end
    -- A backend that exceeded the short time-out is tried again if the others cannot answer. nginx
    -- also makes one more attempt if a kept connection was closed: it starts again with the first.
    local slow = ctx.slow
    local backend = candidates[attempt] or slow or candidates[(attempt - 1) % #candidates + 1]
    ctx.attempt, ctx.backend, ctx.started_at = attempt, backend, now
    local has_next = (attempt < #candidates or attempt == #candidates and slow)
        and IS_RETRIED[ngx.req.get_method()]
    if has_next and not retry_budget.has(budget) then
        has_next, ctx.is_last = false, true
    end
    if has_next then
        balancer.set_more_tries(1)
    end
    if backend.tls_name then
        ngx.var.queryable_tls_name = backend.tls_name
    end
    local ok, err = balancer.set_current_peer(backend.address, backend.port)
    if ok and ctx.is_point then
        local is_short = has_next and attempt < ctx.healthy
        ctx.has_short_timeout = is_short
        local seconds = is_short and POINT_READ_S or ctx.last_timeout
        ok, err = balancer.set_timeouts(POINT_CONNECT_S, POINT_SEND_S,
                                        has_next and before_next(ctx, seconds, now) or seconds)
    end
    if not ok then
        ngx.log(ngx.ERR, "cannot select backend ", backend.id, ": ", err)
        return ngx.exit(ngx.ERROR)
    end
end

-- The functions below read nginx's variables, because nginx clears ngx.ctx when it redirects a
-- request.

--- The last item of a variable that lists one item per attempt.
local function last(list)
    return list and (list:match("^.* (.*)$") or list)
end

--- The number of attempts that nginx lists: commas separate them, and colons after a redirect.
function _M.count_attempts(var)
    local upstream_addr = var.upstream_addr
    if not upstream_addr or upstream_addr == "" then
        return 0
    end
    local _, more = upstream_addr:gsub("[,:] ", "")
    return more + 1
end

--- Whether this module ended the request: nginx then lists one attempt too many.
function _M.was_denied(var)
    return var.queryable_attempts ~= ""
end

--- Whether the last backend answered 503, and the retry budget did not allow another attempt.
-- ctx: ngx.ctx of the request, after its last attempt.
function _M.is_denied_503(var, ctx)
    return ctx.is_last and last(var.upstream_status) == "503"
end

--- Records the failure after which nginx gave up. Does nothing if a backend answered.
function _M.record_last_failure(var)
    if _M.was_denied(var) then
        return
    end
    local status = last(var.upstream_status)
    if (status == "502" or status == "504") and last(var.upstream_header_time) == "-" then
        local now = steady()
        local took = tonumber(last(var.upstream_response_time)) or 0
        passive_health.failed(unhealthy, last(var.upstream_addr), now - took, now)
    end
end

--- Up to `limit` backends other than `replicas`, round robin; unhealthy ones come last.
function _M.others(current, replicas, limit)
    round_robin = round_robin + 1
    if unhealthy.count == 0 then
        return topology.others(current, replicas, round_robin, limit)
    end
    local others = topology.others(current, replicas, round_robin)
    others = passive_health.order(unhealthy, others, false, steady())
    for i = #others, limit + 1, -1 do
        others[i] = nil
    end
    return others
end

return _M
