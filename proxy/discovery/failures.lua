--- Why the topology could not be read from backends, for the health page. The workers share it.
-- Only the last source is asked while it answers. So those that have failed are asked again from
-- time to time, and what is reported is true now.

local clock = require "proxy.telemetry.clock"
local settings = require "proxy.settings"
local shared_topology = require "proxy.discovery.shared_topology"

local _M = {}

-- those that have failed are asked again once in ASK_AGAIN_S; a round of them begins no further
-- request after MAX_ROUND_S
local ASK_AGAIN_S, MAX_ROUND_S = 5 * settings.refresh, 1

--- Records the outcome of a request to the backend with this name. err: nil if it has answered.
function _M.record(name, err)
    local failures = shared_topology.failures()
    if err ~= failures[name] then
        if err then
            ngx.log(ngx.WARN, "cannot read the topology from ", name, ": ", err)
        end
        failures[name] = err
        shared_topology.set_failures(failures)
    end
end

--- Asks the backends in these lists again that have failed, if that is due. name_of(backend): its
-- name; read(backend): asks it, and records the outcome.
function _M.ask_again(lists, name_of, read)
    local failures = shared_topology.failures()
    if not next(failures) or not shared_topology.may_ask_failed(ASK_AGAIN_S) then
        return
    end
    local ends_at, asked = clock.steady() + MAX_ROUND_S, {}
    for _, backends in ipairs(lists) do
        local start = #backends > 0 and math.random(#backends) or 0
        for i = 1, #backends do
            local backend = backends[(start + i) % #backends + 1]
            local name = name_of(backend)
            if failures[name] and not asked[name] and clock.steady() < ends_at then
                asked[name] = true
                read(backend)
            end
        end
    end
end

return _M
