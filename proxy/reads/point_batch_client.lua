--- Sends batches of point reads to a backend on a persistent connection.

local http_client = require "proxy.http_client"
local settings = require "proxy.settings"
local signing = require "proxy.security.signing"
local steady = require("proxy.telemetry.clock").steady

local _M = {}

local PATH = "/internal/reads"

-- The time-outs of a call. CONNECT_S, SEND_S and READ_S are the same as in the first attempt of a
-- point read (see balance). CONNECT_S is for TCP and again for TLS, SEND_S is between two parts of
-- the request, and READ_S is between two parts of the answer
local CONNECT_S, SEND_S, READ_S = 0.25, 1, settings.read_timeout
-- for the whole answer, because a backend may send one byte at a time; a large one has more time
local ANSWER_S, BYTES_PER_S = 2 * READ_S, 10e6
-- after this time, a kept connection that fails is not replaced: a backend that has closed an idle
-- one says so immediately
local REPLACE_S = READ_S
-- shorter than the backends' keep-alive, so that backends do not close a connection first
local KEEPALIVE_S = 15
local MAX_HEAD_BYTES = 16 * 1024
-- what a backend of an earlier version may send: 512 values of less than 64 KiB each, with their
-- heads. Others send 4 MiB of values at most: see backend/wire/point_batch.py
local MAX_ANSWER_BYTES = 48 * 1024 * 1024
local RECEIVE_BYTES = 65536

--- The longest call: on a kept connection that fails, and then on a new one. The last piece of an
-- answer may arrive READ_S after the answer's time.
_M.MAX_CALL_S = REPLACE_S + 2 * CONNECT_S + SEND_S
    + ANSWER_S + MAX_ANSWER_BYTES / BYTES_PER_S + READ_S

--- After a key was refused, all batches have complete signatures for this time: perhaps an HTTP
-- proxy passes the batches of several connections on.
_M.NO_KEYS_S = 60

--- A connection to one backend; it opens with the first request. key: the key of the connection,
-- nil until a batch has begun one (backend/security/connection_key.py); number: the number of the
-- last batch that was signed with the key.
function _M.new(backend)
    return {
        backend = backend, socket = nil, used_at = 0, key = nil, number = 0, no_keys_until = 0,
    }
end

function _M.close(connection)
    if connection.socket then
        connection.socket:close()
        connection.socket, connection.key = nil, nil
    end
end

function _M.close_if_idle(connection, now)
    if connection.socket and now > connection.used_at + KEEPALIVE_S then
        _M.close(connection)
    end
end

local function open(connection)
    local backend = connection.backend
    local socket = ngx.socket.tcp()
    socket:settimeouts(1000 * CONNECT_S, 1000 * SEND_S, 1000 * READ_S)
    local ok, err = http_client.connect(socket, backend.address, backend.port, backend.tls_name)
    if not ok then
        return nil, err
    end
    connection.socket = socket
    return true
end

--- Returns the head in lower case, and the bytes after it; or nil and an error.
local function receive_head(socket, deadline)
    local received = ""
    while true do
        local piece, err = socket:receiveany(RECEIVE_BYTES)
        if not piece then
            return nil, err
        end
        received = received .. piece
        local head_end = received:find("\r\n\r\n", 1, true)
        if (head_end or #received) > MAX_HEAD_BYTES then
            return nil, "response head too long"
        end
        if head_end then
            return received:sub(1, head_end - 1):lower(), received:sub(head_end + 4)
        end
        if steady() > deadline then
            return nil, "timeout"
        end
    end
end

--- Returns the `length` bytes of a body that begins with `received`; or nil and an error.
local function receive_body(socket, received, length, deadline)
    local pieces, size = { received }, #received
    while size < length do
        if steady() > deadline then
            return nil, "timeout"
        end
        local piece, err = socket:receiveany(RECEIVE_BYTES)
        if not piece then
            return nil, err
        end
        pieces[#pieces + 1] = piece
        size = size + #piece
    end
    if size > length then
        return nil, "more than an answer"
    end
    return table.concat(pieces)
end

--- Returns the status, the body and the head, in lower case; or nil and an error.
local function exchange(connection, request)
    local socket = connection.socket
    local sent, err = socket:send(request)
    if not sent then
        return nil, "send: " .. err
    end
    local deadline = steady() + ANSWER_S
    local head, rest = receive_head(socket, deadline)
    if not head then
        return nil, "read: " .. rest
    end
    local status = head:match("^http/1%.1 (%d%d%d)")
    local length = tonumber(head:match("\r\ncontent%-length: *(%d+)"))
    if not status or not length or length > MAX_ANSWER_BYTES then
        return nil, "read: not a backend's response"
    end
    local body
    body, err = receive_body(socket, rest, length, deadline + length / BYTES_PER_S)
    if not body then
        return nil, "read: " .. err
    end
    if head:find("\r\nconnection: *close") then
        _M.close(connection)
    end
    return status, body, head
end

--- The signature of a batch, with the key of its connection if it has one; nil without a secret.
local function sign(connection, body)
    if connection.key then
        connection.number = connection.number + 1
        return signing.batch_signature(connection.key, connection.number, body)
    end
    return signing.sign("POST", PATH, tostring(connection.backend.id), body)
end

--- Gives the connection a key, if the answer to a batch with a complete signature says that it has
-- one.
local function begin_key(connection, signature, head)
    if connection.socket and connection.used_at >= connection.no_keys_until
        and (head .. "\r\n"):find("\r\nqueryable-connection: keyed\r\n", 1, true)
    then
        connection.key, connection.number = signing.connection_key(signature), 0
    end
end

--- Sends the batch on the open connection. Each attempt has a signature of its own, because a
-- backend accepts each once. Returns the status and the body; or nil and an error.
local function attempt(connection, body)
    local has_key = connection.key ~= nil
    local signature = sign(connection, body)
    local status, answer, head = exchange(connection, {
        "POST ", PATH, " HTTP/1.1\r\nHost: ", connection.backend.name,
        signature and "\r\nQueryable-Signature: " or "", signature or "",
        "\r\nContent-Length: ", #body, "\r\n\r\n", body,
    })
    if not status then
        return nil, answer
    end
    connection.used_at = steady()
    if status == "403" and has_key then
        connection.no_keys_until = connection.used_at + _M.NO_KEYS_S
        return nil, "the key of the connection was refused"
    end
    if signature and not has_key then
        begin_key(connection, signature, head)
    end
    return status, answer
end

--- POST /internal/reads with `body`. Returns the status (text) and the body; or nil and an error.
function _M.post(connection, body)
    local may_replace_until = steady() + REPLACE_S
    while true do
        local is_reused = connection.socket ~= nil
        if not is_reused then
            local opened, err = open(connection)
            if not opened then
                return nil, err
            end
        end
        local status, answer = attempt(connection, body)
        if status then
            return status, answer
        end
        _M.close(connection)
        -- A backend may close an idle connection: this is not a failure, and reads are idempotent.
        if not is_reused or answer:find("timeout", 1, true) or steady() > may_replace_until then
            return nil, answer
        end
    end
end

return _M
