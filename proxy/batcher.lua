--- Point reads that wait for the same backend travel together, as databases commit together: while
-- a call is under way, those that arrive wait for its end, and then go in one. No timer, and when
-- nothing is under way, no wait.
--
-- Each worker has a queue a backend. When it is idle, a read goes its ordinary way as the lead, and
-- others wait for it. When the last batch had several reads, all go in batches, the first of them
-- too: it waits for what has arrived in the same turn of the event loop, no longer.
-- Batches are sent by a light thread that no client owns, so a client that goes away holds nobody
-- up. Whoever cannot be answered in a batch goes the ordinary way, which decides.

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
-- more than any call takes: if the end of one got lost, nobody shall wait for it for ever
local LONGEST_WAIT_S = 2.5 * settings.read_timeout
-- s for a backend that does not know the route: another version
local ALONE_FOR_S = 5
local TURN_S = 1
-- a queue that nobody has used for so long ends, with its threads and connections
local IDLE_S = 30

local queues = {}
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

local function serve(queue)
    local connection = reads_call.new(queue.peer)
    queue.used_at = now()
    while not ngx.worker.exiting() and now() < queue.used_at + IDLE_S do
        local batch = queue.forming
        if batch.count > 0 and queue.in_flight < settings.batches then
            queue.forming = new_batch()
            queue.in_flight = queue.in_flight + 1
            queue.used_at = now()
            local ok, err = pcall(call, queue, connection, batch)
            queue.in_flight = queue.in_flight - 1
            release(batch)
            if not ok then
                error(err)
            end
        else
            reads_call.rest(connection, now())
            queue.wake:wait(TURN_S)
        end
    end
    reads_call.close(connection)
end

local function run(premature, queue)
    if not premature then
        local ok, err = pcall(serve, queue)
        if not ok then
            ngx.log(ngx.ERR, "reads of ", queue.peer.name, ": ", err)
        end
    end
    queue.threads = queue.threads - 1
    if queue.threads == 0 then
        if queues[queue.peer.name] == queue then
            queues[queue.peer.name] = nil
        end
        flush(queue)
    end
end

local function new_queue(peer)
    local queue = {
        peer = peer,
        forming = new_batch(),
        in_flight = 0, -- calls: batches, and the lead
        gathers = false,
        alone_till = 0,
        wake = semaphore.new(0),
        threads = 0,
        used_at = now(),
    }
    for _ = 1, settings.batches do
        local ok, err = ngx.timer.at(0, run, queue)
        if ok then
            queue.threads = queue.threads + 1
        else
            ngx.log(ngx.ERR, "reads of ", peer.name, " do not travel together: ", err)
        end
    end
    if queue.threads > 0 then
        queues[peer.name] = queue
    end
    return queue
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
    local queue = queues[peer.name] or new_queue(peer)
    if queue.in_flight == 0 and not queue.gathers then
        return _M.LEADS, lead(queue)
    end
    local batch = queue.forming
    if queue.threads == 0 or now() < queue.alone_till then
        return _M.ALONE
    end
    if batch.count >= MOST_READS or batch.bytes + #path > MOST_BYTES then
        metrics.count_full()
        return _M.ALONE
    end
    local place = batch.count + 1
    if place == 1 then
        batch.began = now()
        if queue.in_flight < settings.batches then
            queue.wake:post(1)
        end
    end
    batch.count, batch.bytes, batch.paths[place] = place, batch.bytes + #path + 1, path
    local ok = batch.ended:wait(LONGEST_WAIT_S)
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
