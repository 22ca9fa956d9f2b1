--- Point reads that wait for the same backend travel together, as databases commit together: while
-- a call is under way, those that arrive wait for its end, and then go in one. No timer, and when
-- nothing is under way, no wait.
--
-- Each worker has a queue a backend. When it is idle, a read goes its ordinary way as the lead, and
-- others wait for it. When the last batch had several reads, all go in batches, the first of them
-- too: it waits for what has arrived in the same turn of the event loop, no longer.
-- Batches are sent by light threads that no client owns, so a client that goes away holds nobody
-- up. Whoever cannot be answered in a batch goes the ordinary way, which decides.
-- The threads of a queue share one timer, as nginx has room for so many at a time
-- (lua_max_running_timers) and drops those that find none.

local metrics = require "proxy.metrics"
local reads_call = require "proxy.reads_call"
local reads_wire = require "proxy.reads_wire"
local semaphore = require "ngx.semaphore"
local settings = require "proxy.settings"

local now = ngx.now

local _M = {}

-- what `take` gives
_M.LEADS, _M.ANSWERED, _M.ALONE, _M.AGAIN = 1, 2, 3, 4

-- of one batch; beyond, reads go the ordinary way
local MOST_READS, MOST_BYTES = 512, 128 * 1024
--- Calls of a worker at a time, of all backends: a light thread and a connection each. A backend
-- whose queue finds no room gets none: its reads go the ordinary way. At least one call a queue, so
-- there are no more queues, and timers, than this.
_M.MOST_CALLS = 512
-- a queue whose timer has not begun by then never will
local STARTS_WITHIN_S = 0.5
-- more than any call takes: if the end of one got lost, nobody shall wait for it for ever
local LONGEST_WAIT_S = 2.5 * settings.read_timeout
-- s for a backend that does not know the route: another version; and where timers are dropped
local ALONE_FOR_S = 5
local TURN_S = 1
-- a queue that nobody has used for so long ends, with its threads and connections
local IDLE_S = 30

local queues, calls = {}, 0
-- nginx has just dropped a queue's timer: no other is begun before
local none_till = 0
local leads, last_lead = {}, 0
local answered, failed

local function new_batch()
    return {
        count = 0,
        bytes = 0,
        began = 0,
        paths = {},
        ended = semaphore.new(0),
        heads = {},
        etags = {},
        bodies = {},
        epoch = nil,
    }
end

--- To be called once: `on_answer(peer, epoch)` and `on_failure(peer, began)` for each call.
function _M.init(on_answer, on_failure)
    answered, failed = on_answer, on_failure
end

local function release(batch)
    if batch.count > 0 then
        batch.ended:post(batch.count)
    end
end

--- Whoever waits goes the ordinary way.
local function flush(queue)
    local batch = queue.forming
    queue.forming = new_batch()
    queue.gathers = false
    release(batch)
end

local function call(queue, connection, batch)
    local began = now()
    local status, answer = reads_call.post(connection, reads_wire.encode(batch.paths))
    if status == "200" then
        local ok, err = reads_wire.decode(answer, batch.count, batch)
        if ok then
            metrics.count_batch(batch.count, began - batch.began)
            queue.gathers = batch.count > 1
            answered(queue.peer, batch.epoch)
            return
        end
        ngx.log(ngx.ERR, "reads of ", queue.peer.name, ": ", err)
    end
    metrics.count_failed(batch.count)
    if status then
        queue.alone_till = now() + ALONE_FOR_S
    else
        failed(queue.peer, began)
    end
    flush(queue)
end

--- What one light thread does as long as the queue is used.
local function serve(queue)
    local connection = reads_call.new(queue.peer)
    while not ngx.worker.exiting() and now() < queue.used_at + IDLE_S do
        local batch = queue.forming
        if batch.count > 0 and queue.in_flight < queue.calls then
            queue.forming = new_batch()
            queue.in_flight = queue.in_flight + 1
            queue.used_at = now()
            local ok, err = pcall(call, queue, connection, batch)
            queue.in_flight = queue.in_flight - 1
            release(batch)
            if not ok then
                reads_call.close(connection)
                ngx.log(ngx.ERR, "reads of ", queue.peer.name, ": ", err)
            end
        else
            reads_call.rest(connection, now())
            queue.wake:wait(TURN_S)
        end
    end
    reads_call.close(connection)
end

--- Ends the queue: reads that wait go the ordinary way, and the next read begins another.
local function remove(queue)
    if queues[queue.peer.name] == queue then
        queues[queue.peer.name] = nil
        calls = calls - queue.calls
    end
    flush(queue)
end

local function run(premature, queue)
    if premature or queues[queue.peer.name] ~= queue then
        return remove(queue)
    end
    queue.is_started = true
    queue.used_at = now()
    local threads = {}
    for i = 2, queue.calls do
        threads[i - 1] = ngx.thread.spawn(serve, queue)
    end
    local ok, err = pcall(serve, queue)
    for i = 1, #threads do
        local is_over, failure = ngx.thread.wait(threads[i])
        if not is_over then
            ok, err = false, failure
        end
    end
    if not ok then
        ngx.log(ngx.ERR, "reads of ", queue.peer.name, ": ", err)
    end
    remove(queue)
end

--- A queue for the backend; nil where the worker has no room for another.
local function new_queue(peer)
    local room = math.min(settings.batches, _M.MOST_CALLS - calls)
    if room < 1 then
        return nil
    end
    local queue = {
        peer = peer,
        forming = new_batch(),
        in_flight = 0, -- calls: batches, and the lead
        gathers = false,
        alone_till = 0,
        wake = semaphore.new(0),
        calls = room, -- how many may be under way
        is_started = false,
        used_at = now(),
    }
    local ok, err = ngx.timer.at(0, run, queue)
    if not ok then
        ngx.log(ngx.ERR, "reads of ", peer.name, " do not travel together: ", err)
        return nil
    end
    queues[peer.name] = queue
    calls = calls + room
    return queue
end

--- The backend's queue, if its reads can travel together.
local function queue_of(peer)
    local queue = queues[peer.name]
    if queue and not queue.is_started and now() > queue.used_at + STARTS_WITHIN_S then
        ngx.log(ngx.ERR, "reads of ", peer.name, " do not travel together: no timer began")
        remove(queue)
        none_till = now() + ALONE_FOR_S
        return nil
    end
    return queue or now() >= none_till and new_queue(peer) or nil
end

local function lead(queue)
    last_lead = last_lead + 1
    leads[last_lead] = queue
    queue.lead = last_lead
    queue.in_flight = queue.in_flight + 1
    return last_lead
end

--- The lead's backend has answered, or the lead is over however it ended. Anybody may say so, as
-- often as they like.
function _M.end_lead(token, has_failed)
    local queue = leads[token]
    if not queue then
        return
    end
    leads[token] = nil
    queue.lead = nil
    queue.in_flight = queue.in_flight - 1
    if has_failed then
        flush(queue)
    elseif queue.forming.count > 0 then
        queue.wake:post(1)
    end
end

--- A point read of `path` from `peer`; may wait. Gives
--   LEADS, token          go the ordinary way, and say `end_lead(token)` when the headers are there
--   ANSWERED, batch, place
--   ALONE                 go the ordinary way
--   AGAIN                 the same, but time has passed: find out anew whom to ask
function _M.take(peer, path)
    local queue = queue_of(peer)
    if not queue then
        metrics.count_no_call()
        return _M.ALONE
    end
    if queue.in_flight == 0 and not queue.gathers then
        return _M.LEADS, lead(queue)
    end
    local batch = queue.forming
    if now() < queue.alone_till then
        return _M.ALONE
    end
    if batch.count >= MOST_READS or batch.bytes + #path > MOST_BYTES then
        metrics.count_full()
        return _M.ALONE
    end
    local place = batch.count + 1
    if place == 1 then
        batch.began = now()
        if queue.in_flight < queue.calls then
            queue.wake:post(1)
        end
    end
    batch.count, batch.bytes, batch.paths[place] = place, batch.bytes + #path + 1, path
    local ok = batch.ended:wait(queue.is_started and LONGEST_WAIT_S or STARTS_WITHIN_S)
    if batch.heads[place] then
        return _M.ANSWERED, batch, place
    end
    if not ok and queue.lead then
        _M.end_lead(queue.lead, true)
    end
    return _M.AGAIN
end

--- What this worker has to do with a backend: {waiting, in_flight}; nil if nothing.
function _M.report(name)
    local queue = queues[name]
    return queue and { waiting = queue.forming.count, in_flight = queue.in_flight }
end

--- Answers the request with what the batch says of it.
function _M.send(batch, place)
    local head, etag, body = batch.heads[place], batch.etags[place], batch.bodies[place]
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
