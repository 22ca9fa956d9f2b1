--- Coalesces point reads for the same backend, like group commit in databases. Reads that arrive
-- during a call to the backend wait until it ends, and are then sent in one request. No timer
-- delays a read, and a read for an idle backend does not wait.
--
-- Each worker has a queue per backend. If the queue is idle, a read is sent by itself as the
-- leader, and later reads wait for its answer. If the last batch had several reads, there is no
-- leader: the next read waits for those that arrive in the same turn of the event loop, and is sent
-- with them. Light threads that belong to no client send the batches, so a client that disconnects
-- does not delay others. A read that a batch cannot answer is sent by itself. The threads of a
-- queue share one timer: nginx limits running timers (lua_max_running_timers) and drops those above
-- the limit.
--
-- A batch has the tokens of its reads, each once. The backend checks them; a read that it refuses
-- is sent by itself, and gets its 401 or 403 then.
--
-- Hot path: see route.

local metrics = require "proxy.metrics"
local point_batch = require "proxy.point_batch"
local point_batch_client = require "proxy.point_batch_client"
local semaphore = require "ngx.semaphore"
local settings = require "proxy.settings"

local now = ngx.now

local _M = {}

-- outcomes of `enqueue`
_M.LEADER, _M.ANSWERED, _M.ALONE, _M.REROUTE = 1, 2, 3, 4

-- limits of one batch; reads above them are sent by themselves
local MAX_READS, MAX_TOKENS, MAX_BYTES = 512, 128, 128 * 1024
--- Concurrent calls of a worker to all backends: each is a light thread and a connection. Reads for
-- a backend whose queue gets none are sent by themselves. A queue has at least one call, so this
-- also limits queues and timers.
_M.MAX_CALLS = 512
-- nginx has dropped a timer that does not start within this time
local START_TIMEOUT_S = 0.5
-- longer than any call: bounds the wait of a read if the end of a call is never reported
local MAX_WAIT_S = 2.5 * settings.read_timeout
-- pause in coalescing: for a backend of a version without the route, or after a lost timer
local PAUSE_S = 5
local IDLE_CHECK_S = 1
-- an unused queue ends after this time, with its threads and connections
local IDLE_TIMEOUT_S = 30

local queues, reserved_calls = {}, 0
-- no queue is created before this time; set when nginx has dropped a queue's timer
local paused_until = 0
-- by the token of the leader
local queues_with_leader, last_token = {}, 0
local on_answer, on_failure

local function new_batch()
    return {
        count = 0,
        bytes = 0,
        started_at = 0,
        groups = {}, -- reads with the same token: a list, and by token
        done = semaphore.new(0),
        heads = {},
        etags = {},
        bodies = {},
        epoch = nil,
    }
end

--- Call once. `answered(backend, epoch)` or `failed(backend, started_at)` is called for each batch.
function _M.init(answered, failed)
    on_answer, on_failure = answered, failed
end

local function wake_readers(batch)
    if batch.count > 0 then
        batch.done:post(batch.count)
    end
end

--- Wakes the waiting reads; each is then sent by itself.
local function flush(queue)
    local batch = queue.pending
    queue.pending = new_batch()
    queue.skips_leader = false
    wake_readers(batch)
end

local function send_batch(queue, connection, batch)
    local started_at = now()
    connection.backend = queue.backend
    local status, answer = point_batch_client.post(connection, point_batch.encode(batch.groups))
    if status == "200" then
        local ok, err = point_batch.decode(answer, batch.count, batch)
        if ok then
            metrics.count_batch(batch.count, started_at - batch.started_at)
            queue.skips_leader = batch.count > 1
            on_answer(queue.backend, batch.epoch)
            return
        end
        ngx.log(ngx.ERR, "invalid answer to a batch of reads from ", queue.backend.name, ": ", err)
    end
    metrics.count_failed(batch.count)
    if status then
        queue.paused_until = now() + PAUSE_S
        if status == "403" then
            ngx.log(ngx.ERR, queue.backend.name, " refuses batches of reads, so they are sent one ",
                    "by one: its log says why. See QUERYABLE_CLUSTER_SECRET_FILE")
        end
    else
        on_failure(queue.backend, started_at)
    end
    flush(queue)
end

--- The loop of one light thread: sends batches until the queue has been idle for IDLE_TIMEOUT_S.
local function send_batches(queue)
    local connection = point_batch_client.new(queue.backend)
    while not ngx.worker.exiting() and now() < queue.used_at + IDLE_TIMEOUT_S do
        local batch = queue.pending
        if batch.count > 0 and queue.in_flight < queue.max_calls then
            queue.pending = new_batch()
            queue.in_flight = queue.in_flight + 1
            queue.used_at = now()
            local ok, err = pcall(send_batch, queue, connection, batch)
            queue.in_flight = queue.in_flight - 1
            wake_readers(batch)
            if not ok then
                point_batch_client.close(connection)
                ngx.log(ngx.ERR, "batch of reads to ", queue.backend.name, " failed: ", err)
            end
        else
            point_batch_client.close_if_idle(connection, now())
            queue.wake:wait(IDLE_CHECK_S)
        end
    end
    point_batch_client.close(connection)
end

--- Ends the queue. Its waiting reads are sent by themselves; the next read creates a new queue.
local function remove(queue)
    if queues[queue.backend.name] == queue then
        queues[queue.backend.name] = nil
        reserved_calls = reserved_calls - queue.max_calls
    end
    flush(queue)
end

--- The queue's timer: runs the queue's threads.
local function run(premature, queue)
    if premature or queues[queue.backend.name] ~= queue then
        return remove(queue)
    end
    queue.is_started = true
    queue.used_at = now()
    local threads = {}
    for i = 2, queue.max_calls do
        threads[i - 1] = ngx.thread.spawn(send_batches, queue)
    end
    local ok, err = pcall(send_batches, queue)
    for i = 1, #threads do
        local has_ended, failure = ngx.thread.wait(threads[i])
        if not has_ended then
            ok, err = false, failure
        end
    end
    if not ok then
        ngx.log(ngx.ERR, "sending batches of reads to ", queue.backend.name, " failed: ", err)
    end
    remove(queue)
end

--- Creates a queue for the backend; nil if the worker has no call left for it.
local function new_queue(backend)
    local max_calls = math.min(settings.batches, _M.MAX_CALLS - reserved_calls)
    if max_calls < 1 then
        return nil
    end
    local queue = {
        backend = backend,
        pending = new_batch(),
        in_flight = 0, -- calls: batches, and the leader
        max_calls = max_calls,
        skips_leader = false,
        paused_until = 0,
        wake = semaphore.new(0),
        is_started = false,
        used_at = now(),
    }
    local ok, err = ngx.timer.at(0, run, queue)
    if not ok then
        ngx.log(ngx.ERR, "reads for ", backend.name, " are not coalesced: ", err)
        return nil
    end
    queues[backend.name] = queue
    reserved_calls = reserved_calls + max_calls
    return queue
end

--- The backend's queue; nil if its reads cannot be coalesced.
local function queue_for(backend)
    local queue = queues[backend.name]
    if queue and not queue.is_started and now() > queue.used_at + START_TIMEOUT_S then
        ngx.log(ngx.ERR, "reads for ", backend.name, " are not coalesced: no timer started")
        remove(queue)
        paused_until = now() + PAUSE_S
        return nil
    end
    return queue or now() >= paused_until and new_queue(backend) or nil
end

local function start_leader(queue)
    last_token = last_token + 1
    queues_with_leader[last_token] = queue
    queue.leader = last_token
    queue.in_flight = queue.in_flight + 1
    return last_token
end

local function finish(token, has_failed)
    local queue = queues_with_leader[token]
    if not queue then
        return
    end
    queues_with_leader[token] = nil
    queue.leader = nil
    queue.in_flight = queue.in_flight - 1
    if has_failed then
        flush(queue)
    elseif queue.pending.count > 0 then
        queue.wake:post(1)
    end
end

--- Call when the backend has answered or failed a request: if it is a leader, its call ends. May be
-- called repeatedly. The token is in a variable because nginx clears ngx.ctx in redirects.
function _M.finish_leader(var, has_failed)
    local token = var.queryable_leader
    if token and token ~= "" then
        finish(tonumber(token), has_failed)
        var.queryable_leader = ""
    end
end

--- Adds a read to the batch. Returns its group and its number in it; nil if the batch is full.
local function add(batch, path, token)
    local group = batch.groups[token]
    local bytes = batch.bytes + #path + 1
    if not group then
        bytes = bytes + point_batch.token_bytes(token)
    end
    if batch.count >= MAX_READS or bytes > MAX_BYTES then
        return nil
    end
    if not group then
        local count = #batch.groups
        if count >= MAX_TOKENS then
            return nil
        end
        group = { token = token, count = 0, paths = {}, first = 0 }
        batch.groups[count + 1], batch.groups[token] = group, group
    end
    local number = group.count + 1
    group.count, group.paths[number] = number, path
    batch.count, batch.bytes = batch.count + 1, bytes
    return group, number
end

--- Enqueues a point read of `path` at `backend` with `token`, "" if it has none; may wait. Returns
-- one of
--   LEADER, token           send it by itself; call `finish_leader` when the headers arrive
--   ANSWERED, batch, index  call `send` to answer it
--   ALONE                   send it by itself
--   REROUTE                 choose the backend again and send it by itself: it has waited
function _M.enqueue(backend, path, token)
    local queue = queue_for(backend)
    if not queue then
        metrics.count_no_call()
        return _M.ALONE
    end
    if queue.in_flight == 0 and not queue.skips_leader then
        return _M.LEADER, start_leader(queue)
    end
    -- another instance may have this address now
    queue.backend = backend
    local batch = queue.pending
    if now() < queue.paused_until then
        return _M.ALONE
    end
    local group, number = add(batch, path, token)
    if not group then
        metrics.count_full()
        return _M.ALONE
    end
    if batch.count == 1 then
        batch.started_at = now()
        if queue.in_flight < queue.max_calls then
            queue.wake:post(1)
        end
    end
    local ok = batch.done:wait(queue.is_started and MAX_WAIT_S or START_TIMEOUT_S)
    local index = group.first + number
    if batch.heads[index] then
        return _M.ANSWERED, batch, index
    end
    if not ok and queue.leader then
        finish(queue.leader, true)
    end
    return _M.REROUTE
end

--- For the health page: {waiting, in_flight} for the backend; nil if it has no queue.
function _M.status(name)
    local queue = queues[name]
    return queue and { waiting = queue.pending.count, in_flight = queue.in_flight }
end

--- Answers the request with the item `index` of the batch.
function _M.send(batch, index)
    local head, etag, body = batch.heads[index], batch.etags[index], batch.bodies[index]
    local names, values, header = head.names, head.values, ngx.header
    ngx.status = head.status
    header["Content-Length"] = #body
    for i = 1, #names do
        header[names[i]] = values[i]
    end
    if etag ~= "" then
        header["etag"] = etag
    end
    header["topology-epoch"] = batch.epoch
    ngx.print(body)
    return ngx.exit(ngx.HTTP_OK)
end

return _M
