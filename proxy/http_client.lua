--- Connections of Lua to backends (cosockets), and one GET: the part of HTTP/1.1 that discovery
-- needs. nginx itself opens the connections of requests that it passes on.
-- The size and the duration of a response are limited.

local clock = require "proxy.telemetry.clock"
local settings = require "proxy.settings"

local _M = {}

local CONNECT_MS, SEND_MS, READ_MS = 500, 500, 1000
-- for the whole response, because a server may send one byte at a time
local MAX_RESPONSE_S = 5
local MAX_LINE_BYTES, MAX_HEADERS = 8192, 100
local MAX_BODY_BYTES = 16 * 1024 * 1024
local RECEIVE_BYTES = 65536
-- shorter than the backends' keep-alive, so that backends do not close a connection first
local KEEPALIVE_MS, POOL_SIZE = 15000, 2

--- A buffered reader of a socket: bytes of `buffer` from index `at` are not consumed yet.
local function new_reader(socket, seconds)
    return { socket = socket, buffer = "", at = 1, deadline = clock.steady() + seconds }
end

--- Receives more bytes; nil and the error.
local function receive(reader)
    local piece, err = reader.socket:receiveany(RECEIVE_BYTES)
    if not piece then
        return nil, err
    end
    if clock.steady() > reader.deadline then
        return nil, "timeout"
    end
    return piece
end

--- The next line, without its line ending.
local function read_line(reader)
    while true do
        local feed = reader.buffer:find("\n", reader.at, true)
        if feed and feed - reader.at <= MAX_LINE_BYTES then
            local line = reader.buffer:sub(reader.at, feed - 1)
            reader.at = feed + 1
            return line:byte(-1) == 13 and line:sub(1, -2) or line
        end
        if feed or #reader.buffer - reader.at >= MAX_LINE_BYTES then
            return nil, "line too long"
        end
        local piece, err = receive(reader)
        if not piece then
            return nil, err
        end
        reader.buffer = reader.buffer:sub(reader.at) .. piece
        reader.at = 1
    end
end

--- Appends the next `size` bytes to `pieces`.
local function read_bytes(reader, size, pieces)
    while true do
        local piece = reader.buffer:sub(reader.at, reader.at + size - 1)
        reader.at = reader.at + #piece
        pieces[#pieces + 1] = piece
        size = size - #piece
        if size == 0 then
            return pieces
        end
        local err
        reader.buffer, err = receive(reader)
        reader.at = 1
        if not reader.buffer then
            return nil, err
        end
    end
end

local function read_headers(reader)
    local headers = {}
    for _ = 0, MAX_HEADERS do
        local line, err = read_line(reader)
        if not line then
            return nil, err
        end
        if line == "" then
            return headers
        end
        local name, value = line:match("^([^:%s]+):%s*(.*)$")
        if name then
            -- trailing spaces, from the end: a pattern would start at each of them
            local size = #value
            while size > 0 and (value:byte(size) == 32 or value:byte(size) == 9) do
                size = size - 1
            end
            headers[name:lower()] = value:sub(1, size)
        end
    end
    return nil, "too many headers"
end

local function read_chunks(reader)
    local pieces, total = {}, 0
    while true do
        local line, err = read_line(reader)
        local hex = line and line:match("^%x+")
        if not hex then
            return nil, err or "invalid chunk"
        end
        local size = tonumber(hex, 16)
        total = total + size
        if total > MAX_BODY_BYTES then
            return nil, "body too long"
        end
        if size == 0 then
            -- trailers end with an empty line, as headers do
            local trailers, trailer_err = read_headers(reader)
            return trailers and table.concat(pieces), trailer_err
        end
        local read
        read, err = read_bytes(reader, size, pieces)
        if not read then
            return nil, err
        end
        line, err = read_line(reader)
        if line ~= "" then
            return nil, err or "invalid chunk"
        end
    end
end

local function read_body(reader, status, headers)
    if status == 304 or status == 204 then
        return ""
    end
    if (headers["transfer-encoding"] or ""):lower() == "chunked" then
        return read_chunks(reader)
    end
    local length = headers["content-length"] or ""
    length = #length <= 15 and length:find("^%d+$") and tonumber(length)
    if not length then
        return nil, "no valid Content-Length"
    end
    if length > MAX_BODY_BYTES then
        return nil, "body too long"
    end
    if length == 0 then
        return ""
    end
    local pieces, err = read_bytes(reader, length, {})
    return pieces and table.concat(pieces), err
end

local function exchange(socket, request, seconds)
    local sent, err = socket:send(request)
    if not sent then
        return nil, "send: " .. err
    end
    local reader = new_reader(socket, seconds)
    local line
    line, err = read_line(reader)
    local status = line and tonumber(line:match("^HTTP/1%.[01] (%d%d%d)"))
    if not status then
        return nil, "read: " .. (err or "not HTTP")
    end
    local headers, body
    headers, err = read_headers(reader)
    if headers then
        body, err = read_body(reader, status, headers)
    end
    if not body then
        return nil, "read: " .. err
    end
    local left = reader.buffer:sub(reader.at)
    return { status = status, headers = headers, body = body }, nil, left
end

--- Connects a socket to a backend; by TLS if `tls_name` is given: the name that its certificate
-- must have. The authority is that of `lua_ssl_trusted_certificate`. options: of `connect` of the
-- socket, or nil. True; or nil and an error.
function _M.connect(socket, address, port, tls_name, options)
    local ok, err = socket:connect(address, port, options)
    if not ok then
        return nil, "connect: " .. err
    end
    if not tls_name then
        return true
    end
    local own = settings.client_certificate
    if own then
        ok, err = socket:setclientcert(own.chain, own.key)
    end
    if ok then
        ok, err = socket:sslhandshake(false, tls_name, true)
    end
    if not ok then
        socket:close()
        return nil, "TLS: " .. err
    end
    return true
end

--- Closes the connection, or keeps it for the next request to this backend.
local function give_back(socket, response, left)
    local headers = response.headers
    local has_end = headers["content-length"] or response.status == 304
    if has_end and left == "" and (headers.connection or ""):lower() ~= "close" then
        socket:setkeepalive(KEEPALIVE_MS, POOL_SIZE)
    else
        socket:close()
    end
end

--- Sends the request on a new or a kept connection. The third value is whether it was a kept one.
local function ask(address, port, request, tls_name, options)
    local socket = ngx.socket.tcp()
    local seconds = options.seconds or MAX_RESPONSE_S
    local ms = seconds * 1000
    socket:settimeouts(math.min(CONNECT_MS, ms), math.min(SEND_MS, ms), math.min(READ_MS, ms))
    -- Each purpose has its own pool: other requests must not take a connection that the server may
    -- have closed. A TLS connection is valid only for the name in the certificate
    local purpose = options.purpose or "get"
    local pool = { pool = ("%s:%s:%s:%s"):format(purpose, address, port, tls_name or "") }
    local ok, err = _M.connect(socket, address, port, tls_name, pool)
    if not ok then
        return nil, err, false
    end
    local is_reused = socket:getreusedtimes() > 0
    local response, left
    response, err, left = exchange(socket, request, seconds)
    if response then
        give_back(socket, response, left)
    else
        socket:close()
    end
    return response, err, is_reused
end

--- GET `path` from the server at `address`:`port`. lines: the further lines of the request;
-- tls_name: see `connect`. options: nil, or a table with `seconds` for the whole response (default:
-- MAX_RESPONSE_S), and `purpose`: requests of different purposes share no connection. With mutual
-- TLS, a connection on which a client's request was passed on no longer counts as nginx's own
-- (backend/security/mutual_tls.py). Returns {status, headers (names in lower case), body}; or nil
-- and an error.
function _M.get(address, port, path, lines, tls_name, options)
    local request = ("GET %s HTTP/1.1\r\nHost: %s:%s\r\n%s\r\n\r\n"):format(
        path, address, port, table.concat(lines, "\r\n"))
    -- a server may close a kept connection at any time: this is not a failure
    for _ = 0, POOL_SIZE do
        local response, err, is_reused = ask(address, port, request, tls_name, options or {})
        if response or not is_reused or err:find("timeout", 1, true) then
            return response, err
        end
    end
    return nil, "read: closed"
end

return _M
