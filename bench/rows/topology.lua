-- What a topology costs a worker of nginx: one line of JSON with the time (p50_ms) to parse and to
-- build it, its memory (rss_mb), and the time of a look-up (cpu_us). Run by LuaJIT, as nginx does.
-- Arguments: the folder of the repository, a file with the document of /processors.

package.path = arg[1] .. "/?.lua;" .. package.path
local cjson = require "cjson"
local topology = require "proxy.topology"

local LOOKUPS = 200000

local file = assert(io.open(arg[2], "rb"))
local text = file:read("*a")
file:close()

local function used_mb()
    collectgarbage()
    collectgarbage()
    return collectgarbage("count") * 1024 / 1e6
end

local before = used_mb()
local began = os.clock()
local document = cjson.decode(text)
local addresses = {}
for _, processor in ipairs(document.processors) do
    addresses[processor.host] = processor.host
end
local map = assert(topology.build(document, addresses, { is_on = false }))
local built = os.clock()
local mb = used_mb() - before
local _, view = next(map.views.by_name)
local keys = {}
for i = 1, 1000 do
    keys[i] = "customer-" .. i
end
local found = 0
local looking = os.clock()
for i = 1, LOOKUPS do
    local _, replicas = topology.replicas(map, view, keys[i % 1000 + 1])
    found = found + #replicas
end
local looked = os.clock()
assert(found > 0)
io.write(cjson.encode {
    p50_ms = (built - began) * 1000,
    rss_mb = mb,
    cpu_us = (looked - looking) / LOOKUPS * 1e6,
}, "\n")
