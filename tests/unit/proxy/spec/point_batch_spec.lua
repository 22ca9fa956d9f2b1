local point_batch = require "proxy.reads.point_batch"

local function u32(...)
    local bytes = {}
    for _, number in ipairs { ... } do
        for shift = 0, 3 do
            bytes[#bytes + 1] = string.char(math.floor(number / 256 ^ shift) % 256)
        end
    end
    return table.concat(bytes)
end

local ALONE, ABSENT = 0xFFFFFFFF, 0xFFFFFFFE

local function keys(line, ...)
    local group = {
        line = line, count = select("#", ...), keys = { ... }, lengths = {}, tokens = { 0 },
    }
    for number, key in ipairs(group.keys) do
        group.lengths[number] = point_batch.key_bytes(key)
    end
    return group
end

describe("a batch of reads", function()
    it("names the partition of keys, and their format", function()
        local view = {
            name = "orders@2", key_format = "avro:1f", partitioner_name = "murmur2", partitions = 9,
        }
        assert.equal("partition orders@2 avro:1f murmur2 9 4 ", point_batch.keys_line(view, 4))
    end)

    -- tests/unit/backend/wire/test_point_batch.py has the same bytes
    it("has the lengths of the keys, and digests of tokens", function()
        local one = keys("partition v int32 murmur2 9 4 ", "\0\0\0\n", "\n\n\n\n")
        local two = keys("partition w string murmur2 2 0 ", "a", "b:c", "d")
        one.tokens = { 1, 1 }
        two.tokens, two.are_tokens_mixed = { 1, 0, 1 }, true
        local digest = ("0"):rep(64)
        local body, count = point_batch.encode({ digest }, { one, two }, nil)
        assert.equal("tokens " .. digest .. "\nlengths 5,5,2,4,2\n"
            .. "partition v int32 murmur2 9 4 2 1\n"
            .. "partition w string murmur2 2 0 3 1,0,1\n\n"
            .. "\1\0\0\0\n\1\n\n\n\n\1a\1b:c\1d", body)
        assert.same({ 5, 0, 2 }, { count, one.first, two.first })
        local size = point_batch.TOKEN_BYTES + #"lengths \n"
        for _, group in ipairs { one, two } do
            size = size + point_batch.group_bytes(group.line)
            for _, length in ipairs(group.lengths) do
                size = size + length + point_batch.READ_BYTES
            end
        end
        assert.is_true(#body <= size)
    end)

    it("has one length if all keys have the same", function()
        local one, two = keys("partition v x murmur2 9 4 ", "a", "b"), keys("partition w y m 1 0 ",
                                                                            "c")
        local body, count = point_batch.encode({}, { one, two }, 2)
        assert.equal("lengths 2\npartition v x murmur2 9 4 2 0\npartition w y m 1 0 1 0\n\n"
            .. "\1a\1b\1c", body)
        assert.same({ 3, 0, 2 }, { count, one.first, two.first })
    end)
end)

local function batch()
    return { lengths = {}, positions = {} }
end

local FIXED = 'served-by: b1; active\n\ncontent-type: application/json\nvary: accept\netag: "t-1-4-'
local STATE, MISS = "partition: 4\noffset: 9\n", "content-type: p\na: b\n\n{}"

local function entry(offset, value, time)
    return (time or ("\0"):rep(8)) .. offset .. value
end

-- 2014-05-13T16:53:20Z, none, and more than a double has exactly
local TIME, NO_TIME = "\0\0\1\69\246\128\176\0", ("\255"):rep(8)
local LATE = "\127" .. NO_TIME:sub(2)
local SMALL = entry("\0\0\0\0\0\0\1\2", '{"n":1}', TIME)
local LARGE_OFFSET = entry("\0\31\255\255\255\255\255\255", "[]", NO_TIME)
local PUSHED = entry("\64\0\0\0\0\0\0\5", "null", LATE)
local KEYS = "QTR2" .. u32(2, 0, 3, #FIXED, #STATE, #MISS, 0, 0, 0,
                           #SMALL, ABSENT, ALONE, #LARGE_OFFSET, #PUSHED, ALONE)
    .. "7-1" .. FIXED .. STATE .. MISS .. SMALL .. LARGE_OFFSET .. PUSHED

local function two_groups()
    local one, two = keys("", "a", "b", "c", "d", "e"), keys("", "f")
    one.first, two.first = 0, 5
    return { one, two }
end

describe("a batch of answers", function()
    it("has those of keys", function()
        local into, groups = batch(), two_groups()
        assert.is_true(point_batch.decode(KEYS, groups, 6, into))
        local one, two = groups[1], groups[2]
        assert.equal("7-1", into.epoch)
        assert.equal("\r\npartition: 4\r\noffset: 9", one.lines)
        assert.equal("\r\nserved-by: b1; active", one.fixed.lines)
        assert.equal("b1; active", one.fixed.served_by)
        assert.equal("application/json", one.fixed.found.content_type)
        assert.equal('\r\nserved-by: b1; active\r\nvary: accept\r\netag: "t-1-4-',
                     one.fixed.found.lines)
        assert.same({ lines = "\r\na: b", content_type = "p", body = "{}" }, one.miss)
        local statuses = {}
        for number = 1, 5 do
            statuses[number] = point_batch.status(into, one, number) or 0
        end
        assert.same({ 200, 404, 0, 200, 200 }, statuses)
        assert.is_nil(point_batch.status(into, two, 1))
        assert.same({ '{"n":1}', "258", "1400000000000" }, { point_batch.value(into, one, 1) })
        assert.same({ "[]", "9007199254740991" }, { point_batch.value(into, one, 4) })
        assert.same({ "null", "4611686018427387909", "9223372036854775807" },
                    { point_batch.value(into, one, 5) })
    end)

    it("is rejected unless it is complete, and then changes nothing", function()
        for size = 0, #KEYS - 1 do
            local into = batch()
            local ok, err = point_batch.decode(KEYS:sub(1, size), two_groups(), 6, into)
            assert.is_nil(ok)
            assert.is_string(err)
            assert.same(batch(), into)
        end
        assert.is_nil(point_batch.decode(KEYS .. "x", two_groups(), 6, batch()))
    end)

    it("is rejected if it answers another request", function()
        local one = { keys("", "a") }
        assert.is_nil(point_batch.decode(KEYS, one, 6, batch()))
        assert.is_nil(point_batch.decode(KEYS, two_groups(), 5, batch()))
        assert.is_nil(point_batch.decode('{"by":"not a batch, but long"}', one, 1, batch()))
        assert.is_nil(point_batch.decode("QTR2" .. u32(0, 0, 0, 0, 0, 0), one, 1, batch()))
        assert.is_nil(point_batch.decode("QTR2" .. u32(1, 0xFFFFFFFF, 0), one, 1, batch()))
        -- answers to paths
        assert.is_nil(point_batch.decode("QTR2" .. u32(1, 1, 0, 0, 0, 0, ALONE, 200, 0), one, 1,
                                         batch()))
        -- shorter than an entry's head
        assert.is_nil(point_batch.decode("QTR2" .. u32(1, 0, 0, 0, 0, 0, 15) .. ("x"):rep(15),
                                         one, 1, batch()))
    end)

    it("leaves out keys whose headers are not in the form", function()
        for _, lines in ipairs {
            { "served-by: x\n", STATE }, { "served-by: x\n\nvary: y\n", STATE },
            { FIXED, "offset: 9" },
        } do
            local fixed, state = unpack(lines)
            local group = keys("", "a")
            group.first = 0
            local answer = "QTR2" .. u32(1, 0, 0, #fixed, #state, 0, #SMALL) .. fixed .. state
                .. SMALL
            local into = batch()
            assert.is_true(point_batch.decode(answer, { group }, 1, into))
            assert.is_nil(point_batch.status(into, group, 1))
        end
    end)

    it("may have no lines about the state of a partition", function()
        local group = keys("", "a")
        group.first = 0
        local answer = "QTR2" .. u32(1, 0, 0, #FIXED, 0, 0, #SMALL) .. FIXED .. SMALL
        assert.is_true(point_batch.decode(answer, { group }, 1, batch()))
        assert.equal("", group.lines)
    end)

    it("takes lines of a name and a value as headers, and skips others", function()
        local fixed = "a: b\n: c\nd\n" .. ("x"):rep(100000) .. '\ne: \n\netag: "'
        local group = keys("", "a")
        group.first = 0
        local answer = "QTR2" .. u32(1, 0, 3, #fixed, 0, 0, #SMALL) .. "7-1" .. fixed .. SMALL
        assert.is_true(point_batch.decode(answer, { group }, 1, batch()))
        assert.equal("\r\na: b\r\ne: ", group.fixed.lines)
    end)
end)
