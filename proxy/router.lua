--- From a request to the backends that shall answer it, in the order in which they are asked.
-- access, balance (once an attempt), log. A key's holders are asked first: the active, then the
-- standbys. If none can be reached, nginx hands the request on to `access_others`: others forward.

local balancer = require "ngx.balancer"
local discovery = require "proxy.discovery"
local health = require "proxy.health"
local problem = require "proxy.problem"
local query = require "proxy.query"
local topology = require "proxy.topology"

local _M = {}

local HEALTH_PATH = "/proxy/health"
local ANY_ASKED = 3
local OTHERS_ASKED = 2

-- Seconds, for point reads: one backend that hangs shall not hold up readers while others could
-- answer. All else has the time-outs of nginx.conf.
local POINT_CONNECT, POINT_SEND, POINT_READ = 0.25, 1, 2

-- nginx itself tries these again: GET and HEAD whatever happened, POST if nothing was sent yet
local TRIED_AGAIN = { GET = true, HEAD = true, POST = true }
local IS_READ = { GET = true, HEAD = true }

local NOBODY = {}
local turn = 0

local function next_turn()
    turn = turn + 1
    return turn
end

local function route(map)
    local path, arguments = query.split(ngx.var.request_uri)
    local view, key, is_point = query.parse(path, arguments, map.views)
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

--- For the balancer: whom to ask, one after the other.
local function ask(peers, is_point, asked_before)
    local ctx = ngx.ctx
    ctx.peers = peers
    ctx.attempt = 0
    ctx.asked_before = asked_before
    ctx.is_point = is_point
end

-- Hot path, with balance and log: no closures, no logging, no JSON, one lookup of ngx.ctx a phase.

--- Access phase of every request.
function _M.access()
    local var = ngx.var
    if var.request_uri == HEALTH_PATH then
        return health.answer()
    end
    local map = discovery.map()
    if not map then
        return problem.send("no-topology")
    end
    local view, partition, holders, owner, is_point = route(map)
    if view then
        var.queryable_view = view.name
    end
    if partition then
        var.queryable_partition = partition
        var.queryable_owner = owner
    end
    if #holders == 0 then
        holders = topology.others(map, NOBODY, next_turn(), ANY_ASKED)
        if #holders == 0 then
            return problem.send("no-backend")
        end
    end
    ask(holders, partition and is_point and IS_READ[var.request_method], 0)
end

--- Whether the request may be asked again after all its holders failed.
local function may_ask_others(var)
    -- all attempts so far: "0", or "0, 0": it has reached nobody, so that nobody has acted on it
    return IS_READ[var.request_method] or not (var.upstream_bytes_sent or "1"):find("[1-9]")
end

--- Access phase after no holder of a key could be reached (nginx's own 502 or 504).
function _M.access_others()
    local var = ngx.var
    local map = discovery.map()
    local _, _, holders, _, is_point = route(map)
    if #holders == 0 or not may_ask_others(var) then
        return problem.send("no-backend")
    end
    local others = topology.others(map, holders, next_turn(), OTHERS_ASKED)
    if #others == 0 then
        return problem.send("no-backend")
    end
    ask(others, is_point and IS_READ[var.request_method], count(var.upstream_addr))
end

--- Balancer phase: once an attempt.
function _M.balance()
    local ctx = ngx.ctx
    local peers, attempt = ctx.peers, ctx.attempt + 1
    ctx.attempt = attempt
    if attempt == 1 and #peers > 1 and TRIED_AGAIN[ngx.req.get_method()] then
        balancer.set_more_tries(#peers - 1)
    end
    -- nginx gives a kept connection that turned out dead one more try: begin again with the first
    local peer = peers[(attempt - 1) % #peers + 1]
    local ok, err = balancer.set_current_peer(peer.address, peer.port)
    if ok and ctx.is_point then
        ok, err = balancer.set_timeouts(POINT_CONNECT, POINT_SEND, POINT_READ)
    end
    if not ok then
        ngx.log(ngx.ERR, "backend ", peer.id, " not asked: ", err)
        return ngx.exit(ngx.ERROR)
    end
end

--- Log phase of every request.
function _M.log()
    local var = ngx.var
    local ctx = ngx.ctx
    local peers, attempt = ctx.peers, ctx.attempt
    -- nginx empties the context when it hands a request on: a problem in the end has none
    var.queryable_attempts = peers and ctx.asked_before + attempt or count(var.upstream_addr)
    if peers and attempt > 0 then
        local epoch = var.upstream_http_topology_epoch
        if epoch then
            discovery.note(epoch, peers[(attempt - 1) % #peers + 1])
        end
    end
end

return _M
