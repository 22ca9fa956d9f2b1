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
local PATHS = coalescer.PATHS
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

--- Returns the text that all reads of a partition have in the access log. It is built once for each
-- topology.
local function log_of(replicas, view, partition, owner)
    local text = replicas.log
    if not text then
        text = (',"view":%s,"partition":%d,"owner":%s,"attempts":1,"batch":')
            :format(quoted(view.name), partition, quoted(owner))
        replicas.log = text
    end
    return text
end

--- Sets the variable of the access log, and counts the duration of a read whose answer was sent.
-- of: a table with the value of `Served-By`.
local function observe(var, replicas, view, partition, owner, batch, of, status, began)
    local role = of.role
    if not role then
        role = labels.role(of.served_by)
        of.role, of.log = role, ',"served_by":' .. quoted(of.served_by or "")
    end
    var.queryable_read = log_of(replicas, view, partition, owner) .. batch.count .. of.log
    latencies.observe(latencies.series(labels.KEY, view.name, role, status), now() - began)
end

local function set_headers(header, lines)
    local names, values = lines.names, lines.values
    for i = 1, #names do
        header[names[i]] = values[i]
    end
end

--- Answers the read of a key, with 200 or 404. nginx takes some 0.2 µs for each header that Lua
-- sets. So all other lines follow the epoch in the value of one header (see nginx.conf), in which
-- nginx escapes nothing. This is for HTTP/1.1 only.
local function send_key(var, batch, group, number, status, key)
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
    header["Content-Length"] = DOCUMENT_BYTES + #key + #value
    return ngx.print { '{"key":"', key, '","value":', value, "}" }
end

--- Answers the read of a path.
local function send_path(batch, index, head)
    local header, etag, body = ngx.header, batch.etags[index], batch.bodies[index]
    ngx.status = head.status
    set_headers(header, head)
    if etag ~= "" then
        header["etag"] = etag
    end
    if head.timestamp then
        header["record-timestamp"] = head.timestamp
    end
    header["topology-epoch"] = batch.epoch
    header["Content-Length"] = #body
    return ngx.print(body)
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
    local uri = var.request_uri
    local view, key, is_as_stored = query.plain_key(uri, current.views)
    if not key then
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
    local of, line, text = PATHS, point_batch.PATHS, uri
    if is_as_stored then
        line = replicas.line
        if not line then
            line = point_batch.keys_line(view, partition)
            replicas.line = line
        end
        of, text = replicas, key
    end
    local batch, group, number = coalescer.enqueue(backend, token, of, line, text)
    if not batch then
        local is_refused = group
        if is_refused then
            var.queryable_refused_by = backend.name
        end
        -- the time that it has waited counts
        var.queryable_began = began
        return false
    end
    local status, head
    if is_as_stored then
        status, head = point_batch.status(batch, group, number), group.fixed
    else
        number = group.first + number
        head = batch.heads[number]
        status = head and head.status
    end
    if not status then
        var.queryable_began = began
        return false
    end
    retry_budget.earn(budget)
    if is_as_stored then
        send_key(var, batch, group, number, status, key)
    else
        send_path(batch, number, head)
    end
    -- nginx would send the answer only when this phase ends, and the measured duration would not
    -- include the sending
    ngx.eof()
    observe(var, replicas, view, partition, owner, batch, head, status, began)
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
