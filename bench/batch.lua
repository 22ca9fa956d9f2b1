-- wrk's script: batches of random keys, and one line of JSON at the end (bench/load.py).
-- Arguments: path, number of keys, seed, keys a batch.

local path, count, size

function init(args)
    path = args[1]
    count = tonumber(args[2])
    math.randomseed(tonumber(args[3]))
    size = tonumber(args[4])
end

function request()
    local keys = {}
    for i = 1, size do
        keys[i] = string.format('"customer-%07d"', math.random(0, count - 1))
    end
    local body = '{"keys":[' .. table.concat(keys, ",") .. "]}"
    return string.format("POST %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%s",
                         path, #body, body)
end

function done(summary, latency)
    local e = summary.errors
    io.write(string.format(
        '{"requests":%d,"duration_us":%d,"failed":%d,"p50_us":%d,"p99_us":%d,"p999_us":%d}\n',
        summary.requests, summary.duration, e.status + e.connect + e.read + e.write + e.timeout,
        latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
