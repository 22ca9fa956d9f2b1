-- A script for wrk: point reads or batches of random keys, then one line of JSON (bench/load.py).
-- Arguments: path, number of keys, seed, keys per batch (0: point reads), think time in ms (0: none),
-- file with a token on each line ("": reads have no token; otherwise each has one of them at random),
-- whether reads without a token have an id for the logs (1 or 0),
-- whether the path is the format of a query with a random number, instead of a key (1 or 0).

local random, format = math.random, string.format

local path, greatest, size
local headers, more = {}, ""

-- formats the request itself, because wrk.format builds a table of headers for each request
local function read()
    return format("GET %s/customer-%07d HTTP/1.1\r\nHost: bench\r\n%s\r\n",
                  path, random(0, greatest), more)
end

local function read_with_token()
    return format("GET %s/customer-%07d HTTP/1.1\r\nHost: bench\r\n%s\r\n",
                  path, random(0, greatest), headers[random(#headers)])
end

local function query()
    return format("GET " .. path .. " HTTP/1.1\r\nHost: bench\r\n\r\n", random(0, greatest))
end

local function batch()
    local keys = {}
    for i = 1, size do
        keys[i] = format('"customer-%07d"', random(0, greatest))
    end
    local body = '{"keys":[' .. table.concat(keys, ",") .. "]}"
    return format("POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
                  .. "Content-Length: %d\r\n\r\n%s", path, #body, body)
end

function init(args)
    path, greatest = args[1], tonumber(args[2]) - 1
    math.randomseed(tonumber(args[3]))
    size = tonumber(args[4])
    if args[6] ~= "" then
        for token in io.lines(args[6]) do
            headers[#headers + 1] = "Authorization: Bearer " .. token .. "\r\n"
        end
    end
    if args[7] == "1" then
        more = "traceparent: 00-" .. ("a"):rep(32) .. "-" .. ("b"):rep(16) .. "-01\r\n"
    end
    request = size > 0 and batch or #headers > 0 and read_with_token or read
    if args[8] == "1" then
        request = query
    end
    local think = tonumber(args[5])
    -- define the function only if needed: wrk calls it before each request
    if think > 0 then
        delay = function()
            return random(0, 2 * think)
        end
    end
end

function done(summary, latency)
    local e = summary.errors
    io.write(format(
        '{"requests":%d,"duration_us":%d,"refused":%d,"unanswered":%d,'
        .. '"p50_us":%d,"p99_us":%d,"p99_9_us":%d}\n',
        summary.requests, summary.duration, e.status, e.connect + e.read + e.write + e.timeout,
        latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
