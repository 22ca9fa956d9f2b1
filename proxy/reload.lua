--- Detects that newer workers will replace this one, which then keeps no client connection open.
--
-- On a reload nginx starts the new workers, and stops the old ones 0.1 s later. These close idle
-- connections immediately, even while a request arrives on them: the client sees a reset. So the
-- old workers answer with `Connection: close` as soon as nginx has read the new configuration, and
-- busy clients have moved to the new workers before the old ones stop.

local _M = {}

local shared = ngx.shared.queryable_topics

local CHECK_INTERVAL_S = 0.01
-- a worker that still runs after this time was not replaced: nginx rejected the new configuration
local RETIRING_S = 10

-- the same in all workers of one configuration, which are forked later
local loaded_at
local next_check, retiring = 0, false

--- Call when the configuration is read.
function _M.load()
    ngx.update_time()
    loaded_at = ngx.now()
    shared:set("loaded_at", loaded_at)
end

--- Hot path: reads the shared dict at most a hundred times a second.
function _M.is_retiring()
    local now = ngx.now()
    if now >= next_check then
        next_check = now + CHECK_INTERVAL_S
        local newest = shared:get("loaded_at")
        retiring = newest ~= loaded_at and now < newest + RETIRING_S
    end
    return retiring
end

return _M
