-- wrk's script: point reads of random keys, and one line of JSON at the end (bench/load.py).
-- Arguments: path prefix, number of keys, seed, think time in ms (0: none).

local prefix, count, think

function init(args)
    prefix = args[1]
    count = tonumber(args[2])
    math.randomseed(tonumber(args[3]))
    think = tonumber(args[4])
    -- without the function there is no delay, and none of its cost
    if think > 0 then
        delay = function()
            return math.random(0, 2 * think)
        end
    end
end

-- wrk.format would build a table of headers for each request
function request()
    return string.format("GET %s/customer-%07d HTTP/1.1\r\nHost: bench\r\n\r\n",
                         prefix, math.random(0, count - 1))
end

function done(summary, latency)
    local e = summary.errors
    io.write(string.format(
        '{"requests":%d,"duration_us":%d,"failed":%d,"p50_us":%d,"p99_us":%d,"p999_us":%d}\n',
        summary.requests, summary.duration, e.status + e.connect + e.read + e.write + e.timeout,
        latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
