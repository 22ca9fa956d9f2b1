--- Coalesces point reads for the same backend, like group commit in databases. Reads that arrive
-- during a call to the backend wait until it ends, and are then sent in one request. No read waits
-- for a fixed time. A read for an idle backend is sent with the reads that arrive in the same turn
-- of the event loop. A batch of several reads waits for two more turns, unless it has many.
--
-- Each worker has a queue per backend. Light threads that belong to no client send the batches, so
-- a client that disconnects does not delay others. The threads of a queue share one timer: nginx
-- limits running timers (lua_max_running_timers) and drops those above the limit.
--
-- A batch has a digest of each token of its reads. The backend checks those that it has verified; a
-- read that it does not answer is sent by itself, with its token, and may get 401 or 403 then.
--
-- Hot path: see point_reads.

local crypto = require "proxy.security.crypto"
local metrics = require "proxy.metrics"
local point_batch = require "proxy.reads.point_batch"
local point_batch_client = require "proxy.reads.point_batch_client"
local semaphore = require "ngx.semaphore"
local settings = require "proxy.settings"

local steady = require("proxy.telemetry.clock").steady

local _M = {}

-- limits of one batch; reads above them are sent by themselves. Backends accept more
local MAX_READS, MAX_TOKENS, MAX_BYTES = 512, 128, 128 * 1024

--- Concurrent calls of a worker to all backends: each is a light thread and a connection. Reads for
-- a backend whose queue gets none are sent by themselves. A queue has at least one call, so this
-- also limits queues and timers.
_M.MAX_CALLS = 512
--- Timers of this module that run at the same time in a worker, besides those of queues: one that
-- begins a turn, and ends immediately.
_M.MAX_TIMERS = 1
-- a batch with this many reads or bytes does not wait for more
local MANY_READS, MANY_BYTES = 64, MAX_BYTES / 2
-- nginx has dropped the timer of a turn that does not begin within this time
local MAX_TURN_S = 0.1
-- nginx has dropped a timer that does not start within this time
local START_TIMEOUT_S = 0.5
-- Time for the call that is running and for the read's own call. It limits the wait of a read if
-- the end of a call is never reported
local MAX_WAIT_S = 2 * point_batch_client.MAX_CALL_S
-- pause in coalescing: for a backend of a version without the route, or after a lost timer
local PAUSE_S = 5
-- statuses of an overloaded backend, or of one that stops: single reads would cost it more
local OVERLOADED = { ["503"] = true, ["429"] = true }
local IDLE_CHECK_S = 1
--- An unused queue ends after this time, with its threads and connections.
_M.IDLE_TIMEOUT_S = 30

-- digests by token, so that each token is hashed once; and the size of tokens and digests (bytes)
local MAX_DIGESTS_BYTES = 8 * 1024 * 1024
local digests, digests_bytes = {}, 0
local queues, reserved_calls = {}, 0
-- no queue is created before this time; set when nginx has dropped a queue's timer
local paused_until = 0
local on_answer, on_failure

local function new_batch()
    return {
        count = 0,
        bytes = 0,
        length = nil, -- of all keys in the request; nil if they differ
        started_at = 0,
        numbers = {}, -- of the tokens of its reads
        digests = {}, -- of these tokens, by number
        groups = {}, -- groups of reads: as a list, and by partition
        done = semaphore.new(0),
        is_refused = false, -- the backend is overloaded
        -- the answers: see point_batch.decode
        answer = nil,
        epoch = nil,
        lengths = {},
        positions = {},
    }
end

--- Call once. `answered(backend, epoch)` or `failed(backend, sent_at)` is called for each batch.
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
    wake_readers(batch)
end

local function send_batch(queue, connection, batch)
    local sent_at = steady()
    connection.backend = queue.backend
    local request, keys = point_batch.encode(batch.digests, batch.groups, batch.length)
    local status, answer = point_batch_client.post(connection, request)
    if status == "200" then
        local ok, err = point_batch.decode(answer, batch.groups, keys, batch)
        if ok then
            metrics.count_batch(batch.count, sent_at - batch.started_at)
            on_answer(queue.backend, batch.epoch)
            return
        end
        ngx.log(ngx.ERR, "invalid answer to a batch of reads from ", queue.backend.name, ": ", err)
    end
    metrics.count_failed(batch.count)
    if OVERLOADED[status] then
        batch.is_refused = true
        return
    end
    if status then
        queue.paused_until = steady() + PAUSE_S
        if status == "403" then
            ngx.log(ngx.ERR, queue.backend.name, " refuses batches of reads, so they are sent one ",
                    "by one: its log says why. See QUERYABLE_CLUSTER_SECRET_FILE")
        end
    else
        on_failure(queue.backend, sent_at)
    end
    flush(queue)
end

--- Ends the queue and its threads. Its waiting reads are sent by themselves; the next read creates
-- a new queue.
local function remove(queue)
    if queues[queue.backend.name] == queue then
        queues[queue.backend.name] = nil
        reserved_calls = reserved_calls - queue.max_calls
        queue.wake:post(queue.max_calls)
    end
    flush(queue)
end

local function should_end(queue)
    return queues[queue.backend.name] ~= queue or ngx.worker.exiting()
        or steady() >= queue.used_at + _M.IDLE_TIMEOUT_S
end

local function begin_turn(_, turn)
    turn:post(1)
end

--- Waits until the event loop has run its timers and the readers that were woken before. A second
-- wait ends after the loop has read from sockets again. turn: a semaphore that only this thread
-- has. Returns whether it has waited. ngx.sleep(0) would log a warning without OpenResty's patches.
local function wait_for_turn(turn)
    turn:wait(0) -- takes the post of a turn that began too late
    return ngx.timer.at(0, begin_turn, turn) and turn:wait(MAX_TURN_S)
end

--- The batch to send next; nil if there is none. A batch of a few reads waits for two turns of the
-- event loop. In them, the answers to the batch before are sent, and clients that read one after
-- another send their next reads, which join the batch. A lone read does not wait.
local function take_batch(queue, turn)
    local batch = queue.pending
    if batch.count > 1 and batch.count < MANY_READS and batch.bytes < MANY_BYTES
        and wait_for_turn(turn)
    then
        wait_for_turn(turn)
    end
    batch = queue.pending
    -- another thread may have taken it meanwhile
    if batch.count == 0 then
        return nil
    end
    queue.pending = new_batch()
    return batch
end

--- The loop of one light thread: sends batches until the queue has been idle for IDLE_TIMEOUT_S.
-- The first thread that ends removes the queue: the others sleep, and no read may wait for them.
local function send_batches(queue)
    local connection, turn = point_batch_client.new(queue.backend), semaphore.new(0)
    while true do
        local batch = take_batch(queue, turn)
        if batch then
            queue.in_flight = queue.in_flight + 1
            queue.used_at = steady()
            local ok, err = pcall(send_batch, queue, connection, batch)
            queue.in_flight = queue.in_flight - 1
            wake_readers(batch)
            if not ok then
                point_batch_client.close(connection)
                ngx.log(ngx.ERR, "batch of reads to ", queue.backend.name, " failed: ", err)
            end
        elseif should_end(queue) then
            break
        else
            point_batch_client.close_if_idle(connection, steady())
            queue.wake:wait(IDLE_CHECK_S)
        end
    end
    point_batch_client.close(connection)
    remove(queue)
end

--- The queue's timer: runs the queue's threads.
local function run(premature, queue)
    if premature or queues[queue.backend.name] ~= queue then
        return remove(queue)
    end
    queue.is_started = true
    queue.used_at = steady()
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
        in_flight = 0, -- calls
        max_calls = max_calls,
        paused_until = nil,
        wake = semaphore.new(0),
        is_started = false,
        used_at = steady(),
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
    if queue and not queue.is_started and steady() > queue.used_at + START_TIMEOUT_S then
        ngx.log(ngx.ERR, "reads for ", backend.name, " are not coalesced: no timer started")
        remove(queue)
        paused_until = steady() + PAUSE_S
        return nil
    end
    return queue or steady() >= paused_until and new_queue(backend) or nil
end

local function digest_of(token)
    local digest = digests[token]
    if not digest then
        if digests_bytes > MAX_DIGESTS_BYTES then
            digests, digests_bytes = {}, 0
        end
        digest = crypto.hash(token)
        digests[token], digests_bytes = digest, digests_bytes + #token + #digest
    end
    return digest
end

--- The group of the partition in the batch, and the number of the token, 0 if it is ""; nil if the
-- batch has no room for the read. length: the bytes of the key in the request.
local function group_for(batch, token, partition, length)
    local numbers, groups = batch.numbers, batch.groups
    local bytes = batch.bytes + length + point_batch.READ_BYTES
    local number, group = token == "" and 0 or numbers[token], groups[partition]
    if not number then
        bytes = bytes + point_batch.TOKEN_BYTES
    end
    if not group then
        bytes = bytes + point_batch.group_bytes(partition.line)
    end
    if batch.count >= MAX_READS or bytes > MAX_BYTES then
        return nil
    end
    if not number then
        number = #batch.digests + 1
        if number > MAX_TOKENS then
            return nil
        end
        numbers[token], batch.digests[number] = number, digest_of(token)
    end
    if not group then
        group = {
            partition = partition,
            line = partition.line,
            count = 0,
            keys = {},
            lengths = {},
            tokens = {},
            are_tokens_mixed = false,
            first = 0,
        }
        groups[#groups + 1], groups[partition] = group, group
    end
    batch.bytes = bytes
    return group, number
end

--- Enqueues a point read at `backend` with `token`, "" if it has none; waits until it is answered.
-- partition: the table that all reads of the key's partition have; its `line` comes from
-- point_batch.keys_line.
-- Returns the batch, the group, and the number of the read in the group. If the read must be sent
-- by itself, returns nil, and whether the backend is overloaded, so that another one must be asked.
function _M.enqueue(backend, token, partition, key)
    local queue = queue_for(backend)
    if not queue then
        metrics.count_no_call()
        return nil
    end
    -- another instance may have this address now
    queue.backend = backend
    local batch = queue.pending
    if queue.paused_until and steady() < queue.paused_until then
        return nil
    end
    local length = point_batch.key_bytes(key)
    local group, token_number = group_for(batch, token, partition, length)
    if not group then
        metrics.count_full()
        return nil
    end
    local number, tokens, lengths = group.count + 1, group.tokens, group.lengths
    group.count, group.keys[number] = number, key
    tokens[number], lengths[number] = token_number, length
    group.are_tokens_mixed = group.are_tokens_mixed or token_number ~= tokens[1]
    if batch.count == 0 then
        batch.length = length
    elseif batch.length ~= length then
        batch.length = nil
    end
    batch.count = batch.count + 1
    if batch.count == 1 then
        batch.started_at = steady()
        if queue.in_flight < queue.max_calls then
            queue.wake:post(1)
        end
    end
    local was_started = queue.is_started
    local is_woken = batch.done:wait(was_started and MAX_WAIT_S or START_TIMEOUT_S)
    if not is_woken and not was_started and queue.is_started then
        batch.done:wait(MAX_WAIT_S)
    end
    if batch.answer then
        return batch, group, number
    end
    return nil, batch.is_refused
end

--- For the health page: {waiting, in_flight} for the backend; nil if it has no queue.
function _M.status(name)
    local queue = queues[name]
    return queue and { waiting = queue.pending.count, in_flight = queue.in_flight }
end

return _M
