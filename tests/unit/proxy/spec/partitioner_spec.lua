local cjson = require "cjson"
local partitioner = require "proxy.partitioner"

local VECTORS = "tests/vectors/"

local function unhex(hex)
    return (hex:gsub("%x%x", function(pair)
        return string.char(tonumber(pair, 16))
    end))
end

local function key_of(written)
    if type(written) == "string" then
        return unhex(written)
    end
    return unhex(written["repeat"]):rep(written.times)
end

describe("the partitioner", function()
    for _, name in ipairs { "murmur2", "crc32", "fnv1a" } do
        it("agrees with every vector of " .. name, function()
            local lines = io.lines(VECTORS .. name .. ".jsonl")
            local header = cjson.decode(lines())
            local tested = 0
            for line in lines do
                local written, expected = unpack(cjson.decode(line))
                local key = key_of(written)
                for index, count in ipairs(header.partitions) do
                    local partition = partitioner[name](key, count)
                    if partition ~= expected[index] then
                        error(("%s of %s for %d: %s"):format(name, line, count, partition))
                    end
                    tested = tested + 1
                end
            end
            assert.is_true(tested >= 2000 * #header.partitions)
        end)
    end

    local producers = io.popen("ls " .. VECTORS .. "producers/*.jsonl")
    for path in producers:lines() do
        local lines = io.lines(path)
        local header = cjson.decode(lines())
        local partition_of = partitioner[header.partitioner]
        if partition_of then
            it("puts keys where a producer does: " .. path:match "([%w-]+)%.jsonl", function()
                local tested = 0
                for line in lines do
                    local written, expected = unpack(cjson.decode(line))
                    -- librdkafka's default puts the empty key into any partition
                    if written ~= "" or header.partitioner ~= "crc32" then
                        for index, count in ipairs(header.partitions) do
                            assert.are.equal(expected[index], partition_of(unhex(written), count))
                        end
                        tested = tested + 1
                    end
                end
                assert.is_true(tested > 300)
            end)
        end
    end
    producers:close()

    it("has no other names", function()
        assert.is_nil(partitioner.none)
    end)
end)
