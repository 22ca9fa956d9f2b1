--- GET /proxy/metrics, for Prometheus: counters of all workers since nginx started. They are
-- updated once per batch, so a read costs nothing.

local discovery = require "proxy.discovery"

local shared = ngx.shared.queryable_topics

local _M = {}

local SIZES = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512 }
local PREFIX = "metric:"

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

function _M.render()
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
                   "Reads in failed batches, which were then sent by themselves.",
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
end

--- Ends the request with all metrics.
function _M.answer()
    ngx.header["Content-Type"] = "text/plain; version=0.0.4"
    ngx.header["Cache-Control"] = "no-store"
    ngx.print(_M.render())
    return ngx.exit(ngx.HTTP_OK)
end

return _M
