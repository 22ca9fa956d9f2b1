--- Whether newer workers are about to replace this one, which then keeps no client's connection.
--
-- On a reload nginx starts the new workers, and 0.1 s later tells the old ones to go. These close
-- idle connections at once, also those on which a request is arriving: the client sees a reset. So
-- as soon as the new configuration is read, the old workers end each answer with
-- `Connection: close`, and those who ask often have moved before that.

local _M = {}

local shared = ngx.shared.queryable_topics

local LOOKED_FOR_EVERY_S = 0.01
-- the old workers are gone by then; if not, nginx has refused the new configuration
local RETIRING_S = 10

-- the same in all workers of one load, which are forked later
local loaded_at
local look_at, retiring = 0, false

--- To be called as the configuration is read.
function _M.load()
    ngx.update_time()
    loaded_at = ngx.now()
    shared:set("loaded_at", loaded_at)
end

--- Hot path: looks into the shared dict a hundred times a second at most.
function _M.is_retiring()
    local now = ngx.now()
    if now >= look_at then
        look_at = now + LOOKED_FOR_EVERY_S
        local newest = shared:get("loaded_at")
        retiring = newest ~= loaded_at and now < newest + RETIRING_S
    end
    return retiring
end

return _M
