--- GET /proxy/metrics, for Prometheus: counters of all workers since nginx started. They are
-- updated once per batch, or when something goes wrong, so a read costs nothing.

local discovery = require "proxy.discovery"
local latencies = require "proxy.telemetry.latencies"

local shared = ngx.shared.queryable_topics

local _M = {}

local SIZES = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512 }
local PREFIX = "metric:"
local FLUSH_S = 1

local function add(name, value)
    local _, err = shared:incr(PREFIX .. name, value, 0)
    if err then
        ngx.log(ngx.ERR, "cannot count metric ", name, ": ", err)
    end
end

local BUCKETS = {}
for i, size in ipairs(SIZES) do
    BUCKETS[i] = "size:" .. size
end

--- A batch of `count` reads was answered; its first read had waited for `waited` s.
function _M.count_batch(count, waited)
    add("batches", 1)
    add("reads", count)
    if waited > 0 then
        add("waited", waited)
    end
    for i = 1, #SIZES do
        if count <= SIZES[i] then
            add(BUCKETS[i], 1)
            return
        end
    end
end

--- A batch of `count` reads was not answered: each of them is sent by itself.
function _M.count_failed(count)
    add("failed", 1)
    add("failed_reads", count)
end

--- A read found the pending batch full.
function _M.count_full()
    add("full", 1)
end

--- A read was sent by itself because the worker had no call left for its backend.
function _M.count_no_call()
    add("no_call", 1)
end

--- nginx refused a request or a connection of a client: see limits.conf.
function _M.count_limited()
    add("limited", 1)
end

--- A request was sent to further backends because the ones before did not answer.
function _M.count_retries(count)
    add("retries", count)
end

--- The retry budget refused a retry.
function _M.count_denied_retry()
    add("denied_retries", 1)
end

--- No replica could be reached, so other backends were asked.
function _M.count_fallback()
    add("fallbacks", 1)
end

--- A request of the view was above its quota.
function _M.count_over_quota(view)
    add("over_quota:" .. view, 1)
end

local function get(name)
    return shared:get(PREFIX .. name) or 0
end

local function metric(name, kind, help, lines)
    return "# HELP queryable_proxy_" .. name .. " " .. help
        .. "\n# TYPE queryable_proxy_" .. name .. " " .. kind
        .. "\n" .. table.concat(lines, "\n") .. "\n"
end

local function counter(name, help, value)
    return metric(name, "counter", help, { "queryable_proxy_" .. name .. " " .. value })
end

--- The lines of the views that have a quota.
local function over_quota()
    local topology, names, lines = discovery.topology(), {}, {}
    for name, view in pairs(topology and topology.views.by_name or {}) do
        names[#names + 1] = view.quota and name
    end
    table.sort(names)
    for i, name in ipairs(names) do
        lines[i] = 'queryable_proxy_over_quota_total{view="' .. name .. '"} '
            .. get("over_quota:" .. name)
    end
    return lines
end

local TOPOLOGY = "topology:"

--- Stores what this worker knows of its topology, for `render` of all workers.
local function share_topology()
    local age = discovery.status()
    local topology = discovery.topology()
    if age and topology then
        local prefix = TOPOLOGY .. ngx.worker.id()
        shared:set(prefix .. ":confirmed", ngx.now() - age)
        shared:set(prefix .. ":epoch", (tonumber(topology.epoch:match("^%d+")) or 0) / 1000)
    end
end

local function flush()
    latencies.flush()
    share_topology()
end

--- Timers of this module that may run at the same time in a worker.
_M.MAX_TIMERS = 1

--- Call when a worker starts.
function _M.init_worker()
    local ok, err = ngx.timer.every(FLUSH_S, flush)
    if not ok then
        ngx.log(ngx.ERR, "cannot start the timer that counts requests: ", err)
    end
end

--- A gauge of each worker's topology.
local function topology_gauge(name, help, field)
    local lines = {}
    for worker = 0, ngx.worker.count() - 1 do
        local value = shared:get(TOPOLOGY .. worker .. ":" .. field)
        if value then
            lines[#lines + 1] = ("queryable_proxy_%s{worker=\"%d\"} %.3f")
                :format(name, worker, value)
        end
    end
    return metric(name, "gauge", help, lines)
end

local function build_info()
    local line = ('queryable_proxy_build_info{nginx="%d",lua_module="%d"} 1')
        :format(ngx.config.nginx_version, ngx.config.ngx_lua_version)
    return metric("build_info", "gauge", "Always 1; the labels are versions.", { line })
end

function _M.render()
    share_topology()
    local sizes, cumulative = {}, 0
    for i, size in ipairs(SIZES) do
        cumulative = cumulative + get(BUCKETS[i])
        sizes[i] = 'queryable_proxy_batch_reads_bucket{le="' .. size .. '"} ' .. cumulative
    end
    local batches = get("batches")
    sizes[#sizes + 1] = 'queryable_proxy_batch_reads_bucket{le="+Inf"} ' .. batches
    sizes[#sizes + 1] = "queryable_proxy_batch_reads_sum " .. get("reads")
    sizes[#sizes + 1] = "queryable_proxy_batch_reads_count " .. batches
    return metric("batch_reads", "histogram", "Coalesced point reads per batch.", sizes)
        .. counter("batch_wait_seconds_total",
                   "Time that the first read of each batch waited, in steps of 1 ms.",
                   get("waited"))
        .. counter("batches_failed_total", "Batches that the backend did not answer.",
                   get("failed"))
        .. counter("batches_failed_reads_total",
                   "Reads in failed batches, then sent by themselves or to other replicas.",
                   get("failed_reads"))
        .. counter("batches_full_total", "Reads sent by themselves because the batch was full.",
                   get("full"))
        .. counter("batches_no_call_total",
                   "Reads sent by themselves because their worker coalesces for too many backends.",
                   get("no_call"))
        .. counter("limited_total", "Requests and connections of clients above limits.conf.",
                   get("limited"))
        .. metric("over_quota_total", "counter", "Requests above the quota of their view.",
                  over_quota())
        .. counter("retries_total", "Attempts at further backends after one that did not answer.",
                   get("retries"))
        .. counter("denied_retries_total", "Retries that the retry budget refused.",
                   get("denied_retries"))
        .. counter("fallbacks_total", "Requests sent to other backends: no replica was reached.",
                   get("fallbacks"))
        .. topology_gauge("topology_confirmed_timestamp_seconds",
                      "When a backend last confirmed the topology of this worker.", "confirmed")
        .. topology_gauge("topology_epoch_timestamp_seconds",
                      "Time of the topology epoch of this worker (leader's clock).", "epoch")
        .. build_info()
        .. latencies.render()
end

--- Ends the request with all metrics.
function _M.answer()
    ngx.header["Content-Type"] = "text/plain; version=0.0.4"
    ngx.header["Cache-Control"] = "no-store"
    ngx.print(_M.render())
    return ngx.exit(ngx.HTTP_OK)
end

return _M
