--- One request that carries many point reads to a backend, on a connection that is kept.

local settings = require "proxy.settings"

local _M = {}

-- as a point read's first attempt: see router.lua
local CONNECT_MS, SEND_MS, READ_MS = 250, 1000, settings.read_timeout * 1000
-- shorter than the backends' own, so that it is never they who close
local KEPT_S = 15
local LONGEST_HEAD = 16 * 1024
-- 512 values of less than 64 KiB each, with their heads: see batcher.lua, http/routes/point_batch.py
local LONGEST_ANSWER = 48 * 1024 * 1024

--- To the backend at one address; opened when it is needed.
function _M.new(peer)
    return { peer = peer, socket = nil, read_head = nil, used_at = 0 }
end

function _M.close(connection)
    if connection.socket then
        connection.socket:close()
        connection.socket = nil
    end
end

--- Closes what nobody has used for long.
function _M.rest(connection, now)
    if connection.socket and now > connection.used_at + KEPT_S then
        _M.close(connection)
    end
end

local function open(connection)
    local peer = connection.peer
    local socket = ngx.socket.tcp()
    socket:settimeouts(CONNECT_MS, SEND_MS, READ_MS)
    local ok, err = socket:connect(peer.address, peer.port)
    if not ok then
        return nil, "connect: " .. err
    end
    connection.socket = socket
    connection.read_head = socket:receiveuntil("\r\n\r\n")
    return true
end

--- Status and body; or nil and what failed.
local function exchange(connection, request)
    local socket = connection.socket
    local sent, err = socket:send(request)
    if not sent then
        return nil, "send: " .. err
    end
    local head, rest
    head, err = connection.read_head(LONGEST_HEAD)
    if not head then
        return nil, "read: " .. (err or "closed")
    end
    -- a bounded read says at the next call whether that was all
    rest, err = connection.read_head(LONGEST_HEAD)
    if rest or err then
        return nil, "read: " .. (err or "a head that is too long")
    end
    head = head:lower()
    local status = head:match("^http/1%.1 (%d%d%d)")
    local length = tonumber(head:match("\r\ncontent%-length: *(%d+)"))
    if not status or not length or length > LONGEST_ANSWER then
        return nil, "read: no answer of a backend"
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

--- POST /internal/reads with `body`. Gives status (text) and body; or nil and what failed.
function _M.post(connection, body)
    local request = {
        "POST /internal/reads HTTP/1.1\r\nHost: ", connection.peer.name,
        "\r\nContent-Length: ", #body, "\r\n\r\n", body,
    }
    while true do
        local is_kept = connection.socket ~= nil
        if not is_kept then
            local opened, err = open(connection)
            if not opened then
                return nil, err
            end
        end
        local status, answer = exchange(connection, request)
        if status then
            connection.used_at = ngx.now()
            return status, answer
        end
        _M.close(connection)
        -- closed while it was kept says nothing of the backend, and reads may be asked again
        if not is_kept or answer:find("timeout", 1, true) then
            return nil, answer
        end
    end
end

return _M
