--- What each worker knows, for /proxy/health: any worker can answer for all of them. Each writes
-- into the shared dict, under the number that nginx gave it.

local cjson = require "cjson.safe"
local clock = require "proxy.telemetry.clock"

local _M = {}

local shared = ngx.shared.queryable_topics

local PREFIX = "worker:"

--- Call in a worker when its topology has changed, and when a backend has confirmed it.
-- epoch: nil without a topology; confirmed_at: s, of `clock.steady`, nil if never.
function _M.report(epoch, confirmed_at)
    local known = { pid = ngx.worker.pid(), epoch = epoch, confirmed_at = confirmed_at }
    local ok, err = shared:set(PREFIX .. ngx.worker.id(), cjson.encode(known))
    if not ok then
        ngx.log(ngx.ERR, "cannot share the epoch of this worker: ", err)
    end
end

--- {pid, epoch, age_s} of each worker. age_s: seconds since a backend last confirmed its topology.
-- epoch and age_s are null if there is none.
function _M.all()
    local workers, now = {}, clock.steady()
    for id = 0, ngx.worker.count() - 1 do
        local known = cjson.decode(shared:get(PREFIX .. id) or "")
        if known then
            workers[#workers + 1] = {
                pid = known.pid,
                epoch = known.epoch or cjson.null,
                age_s = known.confirmed_at and now - known.confirmed_at or cjson.null,
            }
        end
    end
    return setmetatable(workers, cjson.array_mt)
end

return _M
