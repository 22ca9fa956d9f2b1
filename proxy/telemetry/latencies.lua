--- Histograms of the duration of requests, from the access phase to the end of the answer. Each
-- worker counts in tables of its own, and adds them to the shared dict every second: a request
-- costs no access to shared memory. The histograms outlive a reload.
--
-- Hot path (`series`, `observe`): see route.

local buckets = require "proxy.telemetry.buckets"

local bucket_of, BUCKETS = buckets.bucket_of, buckets.BUCKETS

local _M = {}

local shared = ngx.shared.queryable_topics

local PREFIX = "latency:"
local LAST, NAME, ID = PREFIX .. "last", PREFIX .. "name:", PREFIX .. "id:"
-- The maximum for one worker. Views and routes are those of the deployment. Above the maximum, a
-- new series has no view
local MAX_SERIES = 300
local NAME_OF = "queryable_proxy_request_duration_seconds"
-- series that are rendered in one turn of the event loop, and the pause after it. nginx without
-- OpenResty's patches logs a warning for a pause of 0
local TURN, PAUSE_S = 16, 0.001

-- the series of this worker: by route, view, role and status, and as a list
local by_route, all = {}, {}

--- The identity of a series in the shared dict: the same in all workers.
local function id_of(labels)
    local id = shared:get(ID .. labels)
    if id then
        return id
    end
    local new, err = shared:incr(LAST, 1, 0)
    if not new then
        ngx.log(ngx.ERR, "cannot count durations of ", labels, ": ", err)
        return nil
    end
    shared:set(NAME .. new, labels)
    if shared:add(ID .. labels, new) then
        return new
    end
    -- another worker was faster
    shared:delete(NAME .. new)
    return shared:get(ID .. labels)
end

local function child(parent, key)
    local node = parent[key]
    if not node then
        node = {}
        parent[key] = node
    end
    return node
end

local function new_series(route, view, role, status)
    if #all >= MAX_SERIES and view ~= "" then
        return _M.series(route, "", "", status)
    end
    local labels = ('route="%s",view="%s",role="%s",status="%d"'):format(route, view, role, status)
    local series = { labels = labels, counts = {}, requests = 0, seconds = 0 }
    for bucket = 1, BUCKETS do
        series.counts[bucket] = 0
    end
    all[#all + 1] = series
    return series
end

--- The histogram of these labels, for `observe`.
function _M.series(route, view, role, status)
    local by_view = by_route[route]
    local by_role = by_view and by_view[view]
    local by_status = by_role and by_role[role]
    local series = by_status and by_status[status]
    if not series then
        series = new_series(route, view, role, status)
        child(child(child(by_route, route), view), role)[status] = series
    end
    return series
end

--- Counts a request that has taken this time (s).
function _M.observe(series, seconds)
    local counts, bucket = series.counts, bucket_of(seconds)
    counts[bucket] = counts[bucket] + 1
    series.requests = series.requests + 1
    series.seconds = series.seconds + seconds
end

local function add(series)
    local id = series.id or id_of(series.labels)
    if not id then
        return
    end
    series.id = id
    local prefix, counts = PREFIX .. id .. ":", series.counts
    for bucket = 1, BUCKETS do
        if counts[bucket] > 0 then
            shared:incr(prefix .. bucket, counts[bucket], 0)
            counts[bucket] = 0
        end
    end
    shared:incr(prefix .. "seconds", series.seconds, 0)
    series.requests, series.seconds = 0, 0
end

--- Adds what this worker has counted to the shared dict.
function _M.flush()
    for i = 1, #all do
        if all[i].requests > 0 then
            add(all[i])
        end
    end
end

local function render_series(lines, id, labels)
    local prefix, total = PREFIX .. id .. ":", 0
    local line = NAME_OF .. "_bucket{" .. labels .. ',le="'
    for bucket = 1, BUCKETS do
        total = total + (shared:get(prefix .. bucket) or 0)
        lines[#lines + 1] = line .. (buckets.TEXTS[bucket] or "+Inf") .. '"} ' .. total .. "\n"
    end
    local seconds = ("%.9g"):format(shared:get(prefix .. "seconds") or 0)
    lines[#lines + 1] = NAME_OF .. "_sum{" .. labels .. "} " .. seconds .. "\n"
    lines[#lines + 1] = NAME_OF .. "_count{" .. labels .. "} " .. total .. "\n"
end

--- The histograms of all workers in Prometheus' text format. May wait.
function _M.render()
    _M.flush()
    local lines = {
        "# HELP ", NAME_OF, " Duration of requests, from their head to the end of the answer.\n",
        "# TYPE ", NAME_OF, " histogram\n",
    }
    for id = 1, shared:get(LAST) or 0 do
        local labels = shared:get(NAME .. id)
        if labels then
            render_series(lines, id, labels)
            if id % TURN == 0 then
                -- other requests of the worker come first
                ngx.sleep(PAUSE_S)
            end
        end
    end
    return table.concat(lines)
end

return _M
