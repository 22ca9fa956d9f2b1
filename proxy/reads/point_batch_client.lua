--- Sends batches of point reads to a backend on a persistent connection.

local http_client = require "proxy.http_client"
local settings = require "proxy.settings"
local signing = require "proxy.security.signing"

local _M = {}

local PATH = "/internal/reads"

-- as for the first attempt of a point read: see balance
local CONNECT_MS, SEND_MS, READ_MS = 250, 1000, settings.read_timeout * 1000
-- shorter than the backends' keep-alive, so that backends do not close a connection first
local KEEPALIVE_S = 15
local MAX_HEAD_BYTES = 16 * 1024
-- 512 values of less than 64 KiB each, with their heads: see coalescer, and the backend's answer to
-- POST /internal/reads
local MAX_ANSWER_BYTES = 48 * 1024 * 1024

--- A connection to one backend; it opens with the first request.
function _M.new(backend)
    return { backend = backend, socket = nil, read_head = nil, used_at = 0 }
end

function _M.close(connection)
    if connection.socket then
        connection.socket:close()
        connection.socket = nil
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
    socket:settimeouts(CONNECT_MS, SEND_MS, READ_MS)
    local ok, err = http_client.connect(socket, backend.address, backend.port, backend.tls_name)
    if not ok then
        return nil, err
    end
    connection.socket = socket
    connection.read_head = socket:receiveuntil("\r\n\r\n")
    return true
end

--- Returns the status and the body; or nil and an error.
local function exchange(connection, request)
    local socket = connection.socket
    local sent, err = socket:send(request)
    if not sent then
        return nil, "send: " .. err
    end
    local head, rest
    head, err = connection.read_head(MAX_HEAD_BYTES)
    if not head then
        return nil, "read: " .. (err or "closed")
    end
    -- after a bounded read, only the next call shows whether the head is complete
    rest, err = connection.read_head(MAX_HEAD_BYTES)
    if rest or err then
        return nil, "read: " .. (err or "response head too long")
    end
    head = head:lower()
    local status = head:match("^http/1%.1 (%d%d%d)")
    local length = tonumber(head:match("\r\ncontent%-length: *(%d+)"))
    if not status or not length or length > MAX_ANSWER_BYTES then
        return nil, "read: not a backend's response"
    end
    local body = ""
    if length > 0 then
        body, err = socket:receive(length)
        if not body then
            return nil, "read: " .. err
        end
    end
    if head:find("\r\nconnection: *close") then
        _M.close(connection)
    end
    return status, body
end

--- Each attempt has its own signature, because a backend accepts a signature once.
local function request_of(backend, body)
    local signature = signing.sign("POST", PATH, tostring(backend.id), body)
    return {
        "POST ", PATH, " HTTP/1.1\r\nHost: ", backend.name,
        signature and "\r\nQueryable-Signature: " or "", signature or "",
        "\r\nContent-Length: ", #body, "\r\n\r\n", body,
    }
end

--- POST /internal/reads with `body`. Returns the status (text) and the body; or nil and an error.
function _M.post(connection, body)
    while true do
        local is_reused = connection.socket ~= nil
        if not is_reused then
            local opened, err = open(connection)
            if not opened then
                return nil, err
            end
        end
        local status, answer = exchange(connection, request_of(connection.backend, body))
        if status then
            connection.used_at = ngx.now()
            return status, answer
        end
        _M.close(connection)
        -- A backend may close an idle connection: this is not a failure, and reads are idempotent.
        if not is_reused or answer:find("timeout", 1, true) then
            return nil, answer
        end
    end
end

return _M
