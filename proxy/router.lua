--- From a request to the backends that shall answer it, in the order in which they are asked.
-- access, balance (once an attempt), log. A key's holders are asked first: the active, then the
-- standbys, then those that failed a moment ago or are dead. If none can be reached, nginx hands
-- the request on to `access_others`: others forward.

local balancer = require "ngx.balancer"
local batcher = require "proxy.batcher"
local discovery = require "proxy.discovery"
local health = require "proxy.health"
local metrics = require "proxy.metrics"
local passive_health = require "proxy.passive_health"
local plain_headers = require "proxy.plain_headers"
local problem = require "proxy.problem"
local query = require "proxy.query"
local reload = require "proxy.reload"
local retry_budget = require "proxy.retry_budget"
local settings = require "proxy.settings"
local topology = require "proxy.topology"

local _M = {}

local ANY_ASKED = 3
local OTHERS_ASKED = 2

-- Seconds, for point reads: one backend that hangs shall not hold up readers while others could
-- answer. (A stopped process still accepts connections: only the read finds it out. A backend waits
-- 0.2 s itself before it says 503.) All else has the time-outs of nginx.conf.
local POINT_CONNECT, POINT_SEND = 0.25, 1
local POINT_READ = settings.read_timeout
local POINT_READ_LAST = 5 * POINT_READ

-- nginx itself tries these again: GET and HEAD whatever happened, POST if nothing was sent yet
local TRIED_AGAIN = { GET = true, HEAD = true, POST = true }
local IS_READ = { GET = true, HEAD = true }

-- NGX_BUSY: ends the request as a failed attempt does
local NO_FURTHER_ATTEMPT = -3

-- by this status nginx ends the connection after the answer; nginx.conf takes it to @retiring
local LAST_OF_CONNECTION = 497

-- a backend's 503 that no other can better, as nginx.conf asks for it: nginx tries none again
local HOPELESS, UNAVAILABLE = 530, 503

local NOBODY = {}
local turn = 0

-- the worker's own
local failing = passive_health.new()
local budget = retry_budget.new()

local function next_turn()
    turn = turn + 1
    return turn
end

local function route(map, uri)
    local view, key, is_point = query.parse(uri, map.views)
    local partition, holders, owner = topology.holders(map, view, key)
    return view, partition, holders, owner, is_point
end

--- How many backends nginx lists: separated by commas, and by colons after a redirect.
local function count(upstream_addr)
    if not upstream_addr or upstream_addr == "" then
        return 0
    end
    local _, more = upstream_addr:gsub("[,:] ", "")
    return more + 1
end

--- For the balancer: whom to ask, one after the other. Of the first `good`, all but the last one
-- get the short time of a point read.
local function ask(peers, good, is_point, asked_before)
    local ctx = ngx.ctx
    ctx.peers = peers
    ctx.good = good
    ctx.attempt = 0
    ctx.asked_before = asked_before
    ctx.is_point = is_point
end

--- Others than `holders` for what any backend can answer; those that fail come last.
local function others_than(map, holders, limit)
    if failing.count == 0 then
        return topology.others(map, holders, next_turn(), limit)
    end
    local others = topology.others(map, holders, next_turn())
    others = passive_health.order(failing, others, false, ngx.now())
    for i = #others, limit + 1, -1 do
        others[i] = nil
    end
    return others
end

--- Whether the budget ended it: nginx then lists one more attempt, at the backend before.
local function was_denied(var)
    return var.queryable_attempts ~= ""
end

--- The last item of one of nginx's lists, an item an attempt.
local function last(list)
    return list and (list:match("^.* (.*)$") or list)
end

--- Takes notice of the attempt after which nginx gave up; not of an answer that a backend gave.
local function note_last_failure(var)
    if was_denied(var) then
        return
    end
    local status = last(var.upstream_status)
    if (status == "502" or status == "504") and last(var.upstream_header_time) == "-" then
        local now = ngx.now()
        local took = tonumber(last(var.upstream_response_time)) or 0
        passive_health.failed(failing, last(var.upstream_addr), now - took, now)
    end
end

-- what the proxy says of itself
local PAGES = {
    ["/proxy/health"] = function() return health.answer(failing, budget) end,
    ["/proxy/metrics"] = metrics.answer,
}

-- Hot path, with balance and log: no closures, no logging, no JSON, one lookup of ngx.ctx a phase
-- (none for reads that travel together), and no lists of our own as long as nobody fails.

--- Whether the read may travel with others: if it asks for no more than the value, of its active,
-- with whom nobody has found fault.
local function may_travel(var, uri, holder, owner)
    if settings.batches == 0 or holder.id ~= owner or failing.by_name[holder.name] then
        return false
    end
    if var.queryable_plain == "" or not query.is_plain(uri) then
        return false
    end
    local headers, err = ngx.req.get_headers(plain_headers.MOST)
    return not err and plain_headers.are_plain(headers)
end

local LEADS, ANSWERED, AGAIN = batcher.LEADS, batcher.ANSWERED, batcher.AGAIN

--- The read, together with others: true if that has answered it. Else whether to find out anew
-- whom to ask: time has passed.
local function travel(var, uri, holder)
    local outcome, of, place = batcher.take(holder, uri)
    if outcome == ANSWERED then
        var.queryable_batch = of.count
        batcher.send(of, place)
        return true
    end
    if outcome == LEADS then
        var.queryable_lead = of
    end
    return false, outcome == AGAIN
end

--- For the balancer, whom to ask; or the answer, where that is had in another way.
local function find_backends(var, uri, alone)
    local map = discovery.map()
    if not map then
        return problem.send("no-topology")
    end
    local view, partition, holders, owner, is_point = route(map, uri)
    if view then
        var.queryable_view = view.name
    elseif uri:find("#", 1, true) then
        -- no request has a fragment (RFC 9112, 3.2): some backends would cut it off, others not
        return problem.send("bad-request")
    end
    if partition then
        var.queryable_partition = partition
        var.queryable_owner = owner
    end
    is_point = partition and is_point and IS_READ[var.request_method]
    if is_point and not alone and holders[1] and may_travel(var, uri, holders[1], owner) then
        local is_answered, again = travel(var, uri, holders[1])
        if is_answered then
            return
        end
        if again then
            return find_backends(var, uri, true)
        end
    end
    local good = holders.good
    if #holders == 0 then
        holders, good = others_than(map, NOBODY, ANY_ASKED), 0
        if #holders == 0 then
            return problem.send("no-backend")
        end
    elseif failing.count > 0 then
        holders, good = passive_health.order(failing, holders, is_point, ngx.now())
    end
    ask(holders, good, is_point, 0)
end

local function begin(var, alone)
    local uri = var.request_uri
    local page = PAGES[uri]
    if page then
        return page()
    end
    retry_budget.earn(budget)
    return find_backends(var, uri, alone)
end

--- Access phase of what `access` has sent to @retiring.
function _M.access_retiring()
    return begin(ngx.var, true)
end

--- Whether the request may be asked again after all its holders failed.
local function may_ask_others(var)
    -- all attempts so far: "0", or "0, 0": it has reached nobody, so that nobody has acted on it
    return IS_READ[var.request_method] or not (var.upstream_bytes_sent or "1"):find("[1-9]")
end

--- Access phase of every request.
function _M.access()
    if reload.is_retiring() then
        return ngx.exit(LAST_OF_CONNECTION)
    end
    return begin(ngx.var, false)
end

--- The read may be a lead: in a variable, as nginx empties the context of what it hands on.
local function end_lead(var, has_failed)
    local token = var.queryable_lead
    if token and token ~= "" then
        batcher.end_lead(tonumber(token), has_failed)
        var.queryable_lead = ""
    end
end

--- Access phase after no holder of a key could be reached (nginx's own 502 or 504).
function _M.access_others()
    local var = ngx.var
    note_last_failure(var)
    end_lead(var, true)
    local map = discovery.map()
    local _, _, holders, _, is_point = route(map, var.request_uri)
    if #holders == 0 or was_denied(var) or not may_ask_others(var) then
        return problem.send("no-backend")
    end
    local others = others_than(map, holders, OTHERS_ASKED)
    if #others == 0 or not retry_budget.spend(budget) then
        return problem.send("no-backend")
    end
    ask(others, 0, is_point and IS_READ[var.request_method], count(var.upstream_addr))
end

--- What the attempt before says of its backend; whether there may be a further one.
local function after_failure(ctx, now)
    local peer = ctx.peer
    end_lead(ngx.var, true)
    local _, status = balancer.get_last_failure()
    if status == 503 then
        passive_health.succeeded(failing, peer.name)
    else
        passive_health.failed(failing, peer.name, ctx.began, now)
        if status == 504 and ctx.is_short then
            ctx.slow = ctx.slow or peer
        end
    end
    return retry_budget.spend(budget)
end

--- Balancer phase: once an attempt.
function _M.balance()
    local ctx = ngx.ctx
    local peers, attempt, now = ctx.peers, ctx.attempt + 1, ngx.now()
    if attempt > 1 and not after_failure(ctx, now) then
        ngx.var.queryable_attempts = ctx.asked_before + ctx.attempt
        return ngx.exit(NO_FURTHER_ATTEMPT)
    end
    -- One that was given little time is asked again if the others cannot answer. nginx gives a kept
    -- connection that turned out dead one more try, too: begin again with the first.
    local slow = ctx.slow
    local peer = peers[attempt] or slow or peers[(attempt - 1) % #peers + 1]
    ctx.attempt, ctx.peer, ctx.began = attempt, peer, now
    local has_next = (attempt < #peers or attempt == #peers and slow)
        and TRIED_AGAIN[ngx.req.get_method()] and retry_budget.has(budget)
    if has_next then
        balancer.set_more_tries(1)
    end
    local ok, err = balancer.set_current_peer(peer.address, peer.port)
    if ok and ctx.is_point then
        local is_short = has_next and attempt < ctx.good
        ctx.is_short = is_short
        ok, err = balancer.set_timeouts(POINT_CONNECT, POINT_SEND,
                                        is_short and POINT_READ or POINT_READ_LAST)
    end
    if not ok then
        ngx.log(ngx.ERR, "backend ", peer.id, " not asked: ", err)
        return ngx.exit(ngx.ERROR)
    end
end

--- Header filter phase of every response: the next may be asked, however slowly the client takes
-- this one.
function _M.header_filter()
    if ngx.status == HOPELESS then
        ngx.status = UNAVAILABLE
    end
    end_lead(ngx.var, false)
end

--- Log phase of every request.
function _M.log()
    local var = ngx.var
    if var.queryable_batch and var.queryable_batch ~= "" then
        return
    end
    -- the client may have gone before the answer came
    end_lead(var, false)
    local ctx = ngx.ctx
    local peer = ctx.peer
    if not peer then
        -- nginx empties the context when it hands a request on: a problem in the end has none
        if not was_denied(var) then
            note_last_failure(var)
            var.queryable_attempts = count(var.upstream_addr)
        end
        return
    end
    var.queryable_attempts = ctx.asked_before + ctx.attempt
    local epoch = var.upstream_http_topology_epoch
    if epoch then
        if failing.count > 0 then
            passive_health.succeeded(failing, peer.name)
        end
        discovery.note(epoch, peer)
    end
end

batcher.init(
    function(peer, epoch)
        passive_health.succeeded(failing, peer.name)
        discovery.note(epoch, peer)
    end,
    function(peer, began)
        passive_health.failed(failing, peer.name, began, ngx.now())
    end
)

return _M
