--- Access phase of forwarded requests, which are all but the point reads that are answered together
-- (see point_reads): selects the backends that can answer a request, in the order of the attempts.
-- For a key these are the replicas of its partition: the active, its standbys, then those that
-- failed recently or are dead. If none can be reached, nginx runs `access_fallback`, which tries
-- other backends: they forward the request.
--
-- Hot path, together with balance and log. It must not log (except for its own failures), parse or
-- write JSON, or create closures. It looks up ngx.ctx once per phase, and copies no list of
-- backends while all of them are healthy.

local admin_page = require "proxy.admin.page"
local balance = require "proxy.balance"
local discovery = require "proxy.discovery"
local labels = require "proxy.telemetry.labels"
local metrics = require "proxy.metrics"
local pages = require "proxy.admin.pages"
local passive_health = require "proxy.passive_health"
local problem = require "proxy.problem"
local query = require "proxy.query"
local quota = require "proxy.security.quota"
local retry_budget = require "proxy.retry_budget"
local topology = require "proxy.topology"

local _M = {}

-- maximum number of backends to try: for a request that any backend can answer, and in @fallback
local MAX_ANY, MAX_FALLBACK = 3, 2

local IS_READ = { GET = true, HEAD = true }

local NO_REPLICAS = {}

local ENCODING_ALONE = "?encoding=base64url"

local shared = ngx.shared.queryable_topics
local clock = require "proxy.telemetry.clock"

local unhealthy, budget = balance.unhealthy, balance.budget

--- Answers a request that no backend can answer.
local function answer_without_backend(code)
    if admin_page.is_wanted(ngx.var) then
        return admin_page.answer()
    end
    return problem.send(code)
end

--- Returns the view, the partition, its replicas, the active's id, whether this is a point read,
-- and whether the key may be in several partitions.
local function resolve(current, uri)
    local view, key, is_point = query.parse(uri, current.views)
    local partition, replicas, owner = topology.replicas(current, view, key)
    local is_in_several = partition and topology.is_in_several(view, key, partition)
    return view, partition, replicas, owner, is_point, is_in_several
end

--- Whether a backend may wait before it answers the read, for example until it has an offset
-- (`min_offset`). The name of an argument may be percent-encoded, so this is true for every query
-- string except the one that never makes a backend wait.
local function may_wait(uri)
    local question = uri:find("?", 1, true)
    return question and uri:sub(question) ~= ENCODING_ALONE
end

--- Returns `candidates` without the backend `name`, and how many of the others are healthy. That
-- backend was overloaded and refused the read in a batch.
local function without(candidates, healthy, name)
    local others, healthy_others = {}, healthy
    for i = 1, #candidates do
        if candidates[i].name ~= name then
            others[#others + 1] = candidates[i]
        elseif i <= healthy then
            healthy_others = healthy_others - 1
        end
    end
    return others, healthy_others
end

--- Sets the candidates for the balancer: the replicas, or any backend if there are none.
-- any: the topology, or the holders of the view, if other backends cannot answer.
-- waits: whether a backend may wait before it answers. refused_by: the name of the backend that has
-- refused the read in a batch, "" if there is none. is_point: only such reads probe a backend.
local function choose_candidates(any, replicas, is_point, waits, began, label, refused_by)
    local candidates, healthy = replicas, replicas.healthy
    if #replicas == 0 then
        candidates, healthy = balance.others(any, NO_REPLICAS, MAX_ANY), 0
        if #candidates == 0 then
            return answer_without_backend("no-backend")
        end
    elseif unhealthy.count > 0 then
        candidates, healthy = passive_health.order(unhealthy, replicas, is_point, clock.steady())
    end
    local earlier_attempts = 0
    if refused_by ~= "" then
        -- as after a first attempt with the answer 503
        candidates, healthy = without(candidates, healthy, refused_by)
        if #candidates == 0 or not balance.may_retry() then
            return problem.send("overloaded")
        end
        earlier_attempts = 1
    end
    if waits then
        healthy = 0 -- no short time-out: a backend that waits does not hang
    end
    balance.set_candidates(candidates, healthy, is_point or waits, earlier_attempts, began, label)
end

--- Counts the request of a view with a quota. Returns nil if the request is within the quota, else
-- the time (s) until the next request is.
local function count(var, view)
    -- the backends do not count it again
    var.queryable_counted = "1"
    return quota.take(shared, view.quota, clock.steady())
end

--- Answers the request, or sets the candidates for the balancer. `began`: when the request began
-- (s, of `clock`).
local function route(var, uri, began)
    local current = discovery.topology()
    if not current then
        return answer_without_backend("no-topology")
    end
    local view, partition, replicas, owner, is_point, is_in_several = resolve(current, uri)
    if view then
        var.queryable_view = view.name
    elseif uri:find("#", 1, true) then
        -- a request target has no fragment (RFC 9112, 3.2), and HTTP parsers treat one differently
        return problem.send("bad-request")
    end
    -- point_reads may have counted it
    if current.views.have_quotas and var.queryable_counted == "" then
        local queried = view or query.view_of(uri, current.views)
        local wait = queried and queried.quota and count(var, queried)
        if wait then
            metrics.count_over_quota(queried.name)
            return problem.send("quota-exceeded", math.ceil(wait))
        end
    end
    if partition then
        var.queryable_partition = partition
        var.queryable_owner = owner
    end
    local label = view and (is_point and labels.KEY or labels.below_key(uri))
    local is_read = view and IS_READ[var.request_method]
    is_point = is_read and is_point
    local is_history = is_read and partition and not is_in_several and labels.IS_HISTORY[label]
    -- a backend may wait for an offset, for the backends that have the key, or for its other
    -- partitions
    local waits = is_history or is_point and (not partition or is_in_several or may_wait(uri))
    local any = current
    if current.views.differ then
        local queried = view or query.view_of(uri, current.views)
        any = queried and queried.holders or current
    end
    return choose_candidates(any, replicas, is_point, waits, began, label,
                             var.queryable_refused_by)
end

--- Access phase of @forward.
function _M.access()
    local var = ngx.var
    -- a read that has waited for its batch
    local began = tonumber(var.queryable_began) or clock.began(ngx.now())
    local uri = var.request_uri
    local page = pages.find(uri)
    if page then
        return pages.answer(page, var)
    end
    retry_budget.earn(budget)
    return route(var, uri, began)
end

--- Access phase of a page of the proxy. The client may have written its path in any form, but not
-- with `..`: such a path may be that of a key, which nginx has resolved to this page.
function _M.access_page(path)
    local var = ngx.var
    if query.climbs(var.request_uri) then
        return problem.send("bad-request")
    end
    return pages.answer(pages.find(path), var)
end

--- Access phase of paths that are for backends only.
function _M.access_internal()
    return problem.send(query.climbs(ngx.var.request_uri) and "bad-request" or "no-such-resource")
end

--- Access phase of @fallback: no replica of the key could be reached (nginx's own 502 or 504).
function _M.access_fallback()
    local var = ngx.var
    balance.record_last_failure(var)
    local current = discovery.topology()
    local _, _, replicas, _, is_point, is_in_several = resolve(current, var.request_uri)
    local is_read = IS_READ[var.request_method]
    local may_repeat = is_read or balance.nothing_was_sent(var)
    if #replicas == 0 or not may_repeat or balance.was_denied(var) then
        return answer_without_backend(problem.unanswered(var))
    end
    local others = balance.others(current, replicas, MAX_FALLBACK)
    local earlier = balance.count_attempts(var)
    if #others == 0 then
        balance.count_denied_after(earlier, replicas)
        return answer_without_backend("no-backend")
    end
    if not balance.may_retry() then
        return answer_without_backend("no-backend")
    end
    metrics.count_fallback()
    -- nginx has cleared ngx.ctx; its own clock is less precise
    local began = clock.began(ngx.req.start_time())
    local label = is_point and labels.KEY or labels.below_key(var.request_uri)
    local is_of_key = is_point or not is_in_several and labels.IS_HISTORY[label]
    balance.set_candidates(others, 0, is_read and is_of_key, earlier, began, label)
end

return _M
