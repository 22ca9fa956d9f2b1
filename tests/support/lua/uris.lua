-- Prints what the proxy parses from URIs, for tests. The first line of the input is the document of
-- /processors; each further line is a URI as a JSON string. For each URI it prints
-- [view, key in hexadecimal, partition], with null for missing parts.
--   luajit tests/support/lua/uris.lua < input

package.path = "./?.lua;" .. package.path

local cjson = require "cjson.safe"
local query = require "proxy.query"
local topology = require "proxy.topology"

local function hex(bytes)
    return (bytes:gsub(".", function(byte)
        return ("%02x"):format(byte:byte())
    end))
end

-- "\u00ff" stands for the byte 0xff
local function bytes_of(text)
    return (text:gsub("([\194\195])([\128-\191])", function(first, second)
        return string.char((first:byte() - 194) * 64 + second:byte())
    end))
end

io.stdout:setvbuf("line")
local current = assert(topology.build(cjson.decode(io.read("*l")), {}))

for line in io.lines() do
    local uri = bytes_of(cjson.decode("[" .. line .. "]")[1])
    local view, key = query.parse(uri, current.views)
    local partition = topology.replicas(current, view, key)
    print(cjson.encode {
        view and view.name or cjson.null,
        key and hex(key) or cjson.null,
        partition or cjson.null,
    })
end
