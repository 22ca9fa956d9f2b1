--- Content phase of `location /`: answers plain point reads, each together with others (see
-- coalescer). All other requests, and those that a batch has not answered, are forwarded
-- (`@forward` in nginx.conf, and route).
--
-- Hot path, together with coalescer and point_batch. It must not log (except for its own failures),
-- parse or write JSON, or create closures. It does not use ngx.ctx, and few variables of nginx.

local balance = require "proxy.balance"
local browser_rules = require "proxy.security.browser_rules"
local clock = require "proxy.telemetry.clock"
local coalescer = require "proxy.reads.coalescer"
local discovery = require "proxy.discovery"
local labels = require "proxy.telemetry.labels"
local latencies = require "proxy.telemetry.latencies"
local point_batch = require "proxy.reads.point_batch"
local query = require "proxy.query"
local quota = require "proxy.security.quota"
local reload = require "proxy.reload"
local retry_budget = require "proxy.retry_budget"
local settings = require "proxy.settings"
local topology = require "proxy.topology"

local _M = {}

-- nginx closes the connection after an answer with this status; nginx.conf maps it to @forward
local CLOSE_CONNECTION = 497
local FORWARD = "@forward"
-- bytes of {"key":"","value":}
local DOCUMENT_BYTES = 19

local shared = ngx.shared.queryable_topics
local now = clock.now
local get_method, http_version = ngx.req.get_method, ngx.req.http_version
local unhealthy, budget = balance.unhealthy, balance.budget

--- The token of the read, or "", if its Host is allowed and no header changes the answer; else nil.
local function token_of(browsers)
    local headers, err = ngx.req.get_headers(query.MAX_PLAIN_HEADERS)
    if err or not browser_rules.allows_host(browsers, headers.host) then
        return nil
    end
    return query.plain_token(headers)
end

--- A name as text in the access log.
local function quoted(name)
    return '"' .. name:gsub('["\\]', "\\%0"):gsub("%c", " ") .. '"'
end

--- What all reads of a partition have: `line`, of their group in a batch; `log`, in the access log;
-- and the name of the view. Call once for each partition of a topology.
local function new_partition(view, partition, owner)
    return {
        line = point_batch.keys_line(view, partition),
        log = (',"view":%s,"partition":%d,"owner":%s,"attempts":1,"batch":')
            :format(quoted(view.name), partition, quoted(owner)),
        view_name = view.name,
    }
end

--- Sets the variable of the access log, and counts the duration of a read whose answer was sent.
local function observe(var, batch, group, status, began)
    local partition, fixed = group.partition, group.fixed
    local role = fixed.role
    if not role then
        role = labels.role(fixed.served_by)
        fixed.role, fixed.log = role, ',"served_by":' .. quoted(fixed.served_by or "")
    end
    var.queryable_read = partition.log .. batch.count .. fixed.log
    local series = latencies.series(labels.KEY, partition.view_name, role, status)
    latencies.observe(series, now() - began)
end

--- Answers the read of a key, with 200 or 404. nginx takes some 0.2 µs for each header that Lua
-- sets. So all other lines follow the epoch in the value of one header (see nginx.conf), in which
-- nginx escapes nothing. This is for HTTP/1.1 only. text: the key, if keys of the view are text;
-- for other keys, the backend has written the document.
local function send(var, batch, group, number, status, text)
    local header, fixed = ngx.header, group.fixed
    if status == 404 then
        local miss = group.miss
        ngx.status = 404
        var.queryable_head = batch.epoch .. group.lines .. fixed.lines .. miss.lines
        header["Content-Type"] = miss.content_type
        header["Content-Length"] = #miss.body
        return ngx.print(miss.body)
    end
    local value, offset, timestamp = point_batch.value(batch, group, number)
    local found, head = fixed.found, group.head
    if not head then
        head = batch.epoch .. group.lines .. found.lines
        group.head = head
    end
    var.queryable_head = head .. offset .. '-json"'
        .. (timestamp and "\r\nrecord-timestamp: " .. timestamp or "")
    header["Content-Type"] = found.content_type
    if not text then
        header["Content-Length"] = #value
        return ngx.print(value)
    end
    header["Content-Length"] = DOCUMENT_BYTES + #text + #value
    return ngx.print { '{"key":"', text, '","value":', value, "}" }
end

--- Counts the request of a view with a quota. Returns false if the quota is used up: then @forward
-- refuses the request.
local function is_within_quota(var, view)
    if quota.take(shared, view.quota, clock.steady()) then
        return false
    end
    -- neither @forward nor the backends count it again
    var.queryable_counted = "1"
    return true
end

--- Answers the request if it is a plain point read (see query), and a batch has its answer. Returns
-- whether it was answered.
local function read(var, current)
    local began = clock.began(ngx.now())
    if get_method() ~= "GET" or http_version() ~= 1.1 then
        return false
    end
    local view, key = query.plain_key(var.request_uri, current.views)
    if not key or not view.is_coalesced then
        return false
    end
    local partition, replicas, owner = topology.replicas(current, view, key)
    local backend = replicas[1]
    if not backend or backend.id ~= owner or unhealthy.by_name[backend.name] then
        return false
    end
    -- a backend would leave the read out
    if topology.is_in_several(view, key, partition) then
        return false
    end
    local token = token_of(current.browsers)
    if not token or view.quota and not is_within_quota(var, view) then
        return false
    end
    local reads = replicas.reads
    if not reads then
        reads = new_partition(view, partition, owner)
        replicas.reads = reads
    end
    local batch, group, number = coalescer.enqueue(backend, token, reads, key)
    if not batch then
        local is_refused = group
        if is_refused then
            var.queryable_refused_by = backend.name
        end
        -- the time that it has waited counts
        var.queryable_began = began
        return false
    end
    local status = point_batch.status(batch, group, number)
    if not status then
        var.queryable_began = began
        return false
    end
    retry_budget.earn(budget)
    send(var, batch, group, number, status, view.has_text_keys and key)
    -- nginx would send the answer only when this phase ends, and the measured duration would not
    -- include the sending
    ngx.eof()
    observe(var, batch, group, status, began)
    return true
end

--- Content phase.
function _M.content()
    if reload.is_retiring() then
        return ngx.exit(CLOSE_CONNECTION)
    end
    local current = discovery.topology()
    if settings.batches > 0 and current and read(ngx.var, current) then
        return
    end
    return ngx.exec(FORWARD)
end

return _M
