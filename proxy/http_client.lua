--- One GET over a cosocket: what discovery needs of HTTP/1.1, no more.
-- Whatever the other side sends, an answer has a bound in bytes and in time.

local _M = {}

local CONNECT_MS, SEND_MS, READ_MS = 500, 500, 1000
-- for the whole answer, s: a server that sends a byte now and then is given up, too
local LONGEST_S = 5
local LONGEST_LINE, MOST_HEADERS = 8192, 100
local LONGEST_BODY = 16 * 1024 * 1024
local PIECE = 65536

--- What reads from a socket: `held` is what has been received and not been taken, from `at` on.
local function new_reader(socket)
    return { socket = socket, held = "", at = 1, till = ngx.now() + LONGEST_S }
end

--- Receives more; nil and why there is none.
local function receive(reader)
    local piece, err = reader.socket:receiveany(PIECE)
    if not piece then
        return nil, err
    end
    if ngx.now() > reader.till then
        return nil, "timeout"
    end
    return piece
end

--- The next line, without its end.
local function read_line(reader)
    while true do
        local feed = reader.held:find("\n", reader.at, true)
        if feed and feed - reader.at <= LONGEST_LINE then
            local line = reader.held:sub(reader.at, feed - 1)
            reader.at = feed + 1
            return line:byte(-1) == 13 and line:sub(1, -2) or line
        end
        if feed or #reader.held - reader.at >= LONGEST_LINE then
            return nil, "a line that is too long"
        end
        local piece, err = receive(reader)
        if not piece then
            return nil, err
        end
        reader.held = reader.held:sub(reader.at) .. piece
        reader.at = 1
    end
end

--- The next `size` bytes, put behind those in `pieces`.
local function read_bytes(reader, size, pieces)
    while true do
        local piece = reader.held:sub(reader.at, reader.at + size - 1)
        reader.at = reader.at + #piece
        pieces[#pieces + 1] = piece
        size = size - #piece
        if size == 0 then
            return pieces
        end
        local err
        reader.held, err = receive(reader)
        reader.at = 1
        if not reader.held then
            return nil, err
        end
    end
end

local function read_headers(reader)
    local headers = {}
    for _ = 0, MOST_HEADERS do
        local line, err = read_line(reader)
        if not line then
            return nil, err
        end
        if line == "" then
            return headers
        end
        local name, value = line:match("^([^:%s]+):%s*(.*)$")
        if name then
            -- spaces at the end, from the end: a pattern would look from each of them
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
            return nil, err or "a broken chunk"
        end
        local size = tonumber(hex, 16)
        total = total + size
        if total > LONGEST_BODY then
            return nil, "a body that is too long"
        end
        if size == 0 then
            -- trailers end with an empty line, as headers do
            local ended, trailer_err = read_headers(reader)
            return ended and table.concat(pieces), trailer_err
        end
        local read
        read, err = read_bytes(reader, size, pieces)
        if not read then
            return nil, err
        end
        line, err = read_line(reader)
        if line ~= "" then
            return nil, err or "a broken chunk"
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
        return nil, "a body without a length"
    end
    if length > LONGEST_BODY then
        return nil, "a body that is too long"
    end
    if length == 0 then
        return ""
    end
    local pieces, err = read_bytes(reader, length, {})
    return pieces and table.concat(pieces), err
end

local function exchange(socket, request)
    local sent, err = socket:send(request)
    if not sent then
        return nil, "send: " .. err
    end
    local reader = new_reader(socket)
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
    return { status = status, headers = headers, body = body }
end

--- GET `path` of the server at `address`:`port`.
-- Gives {status, headers (names in lower case), body}, or nil and what failed.
function _M.get(address, port, path, request_headers)
    local socket = ngx.socket.tcp()
    socket:settimeouts(CONNECT_MS, SEND_MS, READ_MS)
    local ok, err = socket:connect(address, port)
    if not ok then
        return nil, "connect: " .. err
    end
    local lines = {
        "GET " .. path .. " HTTP/1.1",
        "Host: " .. address .. ":" .. port,
        "Connection: close",
    }
    for name, value in pairs(request_headers) do
        lines[#lines + 1] = name .. ": " .. value
    end
    local response
    response, err = exchange(socket, table.concat(lines, "\r\n") .. "\r\n\r\n")
    socket:close()
    return response, err
end

return _M
