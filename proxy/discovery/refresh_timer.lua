--- The timers that read the topology. With several workers, each looks often whether another one
-- has read it. A single worker has a timer for the end of each turn, so it is woken only if there
-- is something to do. See shared_topology for the turns.

local clock = require "proxy.telemetry.clock"
local settings = require "proxy.settings"
local shared_topology = require "proxy.discovery.shared_topology"

local _M = {}

-- interval at which a worker checks whether another one has read a topology, or a refresh is due
local TICK_S = 0.1
-- nginx's clock is coarse. If a timer is still too early, there is another one
local MARGIN_S = 0.005

-- returns whether a refresh is in progress
local tick
-- When the next timer of a single worker runs, by clock.steady(). If this time is past, the timer
-- has run, or nginx has dropped it
local next_at = 0

local once

local function plan(is_refreshing)
    local now = clock.steady()
    if ngx.worker.count() > 1 or next_at > now then
        return
    end
    local least = now + (is_refreshing and TICK_S or MARGIN_S)
    next_at = math.max(shared_topology.turn_ends_at() + MARGIN_S, least)
    ngx.timer.at(next_at - now, once)
end

--- nginx repeats this timer itself, so one that could not run does not prevent later ones.
local function repeated(premature)
    if not premature then
        plan(tick())
    end
end

function once(premature)
    next_at = 0
    repeated(premature)
end

--- Call when a worker starts. call(): uses what another worker has read, refreshes the topology if
-- this worker takes the turn, and returns whether it has found a refresh in progress.
function _M.start(call)
    tick = call
    -- a single worker needs this timer only in case nginx drops one that `plan` has set
    local is_single = ngx.worker.count() == 1
    local interval = is_single and 2 * settings.refresh or math.min(TICK_S, settings.refresh / 2)
    local ok, err = ngx.timer.every(interval, repeated)
    if not ok then
        ngx.log(ngx.ERR, "cannot start the timer that reads the topology: ", err)
    end
    -- the first refresh, without a delay; if nginx drops this timer, the timer above does it
    ngx.timer.at(0, once)
end

return _M
