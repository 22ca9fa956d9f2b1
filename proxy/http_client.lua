--- One GET over a cosocket: what discovery needs of HTTP/1.1, no more.

local _M = {}

local CONNECT_MS, SEND_MS, READ_MS = 500, 500, 1000
local LONGEST_BODY = 16 * 1024 * 1024

local function read_headers(socket)
    local headers = {}
    while true do
        local line, err = socket:receive("*l")
        if not line then
            return nil, err
        end
        if line == "" then
            return headers
        end
        local name, value = line:match("^([^:%s]+):%s*(.-)%s*$")
        if name then
            headers[name:lower()] = value
        end
    end
end

local function read_chunks(socket)
    local chunks, total = {}, 0
    while true do
        local line, err = socket:receive("*l")
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
            local ended, trailer_err = read_headers(socket)
            return ended and table.concat(chunks), trailer_err
        end
        local chunk
        chunk, err = socket:receive(size)
        if not chunk then
            return nil, err
        end
        chunks[#chunks + 1] = chunk
        line, err = socket:receive("*l")
        if line ~= "" then
            return nil, err or "a broken chunk"
        end
    end
end

local function read_body(socket, status, headers)
    if status == 304 or status == 204 then
        return ""
    end
    if (headers["transfer-encoding"] or ""):lower() == "chunked" then
        return read_chunks(socket)
    end
    local length = tonumber(headers["content-length"])
    if not length then
        return nil, "a body without a length"
    end
    if length > LONGEST_BODY then
        return nil, "a body that is too long"
    end
    if length == 0 then
        return ""
    end
    return socket:receive(length)
end

local function exchange(socket, request)
    local sent, err = socket:send(request)
    if not sent then
        return nil, "send: " .. err
    end
    local line
    line, err = socket:receive("*l")
    local status = line and tonumber(line:match("^HTTP/1%.[01] (%d%d%d)"))
    if not status then
        return nil, "read: " .. (err or "not HTTP")
    end
    local headers, body
    headers, err = read_headers(socket)
    if headers then
        body, err = read_body(socket, status, headers)
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
