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
    local count = select("#", ...)
    return { line = line, is_keys = true, count = count, texts = { ... }, tokens = { 0 } }
end

local function paths(...)
    local count = select("#", ...)
    return {
        line = point_batch.PATHS, is_keys = false, count = count, texts = { ... }, tokens = { 0 },
    }
end

describe("a batch of reads", function()
    it("names the partition of keys", function()
        local view = { name = "orders@2", partitioner_name = "murmur2", partitions = 9 }
        assert.equal("keys orders@2 murmur2 9 4 ", point_batch.keys_line(view, 4))
    end)

    it("has stored keys, each in a line", function()
        local group = keys("keys orders murmur2 9 4 ", "a", "b:c", "d")
        local body, of_keys, count, of_paths = point_batch.encode({}, { group })
        assert.equal("keys orders murmur2 9 4 3 0\n\1a\n\1b:c\n\1d", body)
        assert.same({ group }, of_keys)
        assert.same({ 0, 3, 0 }, { group.first, count, of_paths })
        local size = point_batch.group_bytes(group.line)
        for _, text in ipairs(group.texts) do
            size = size + point_batch.text_bytes(text)
        end
        assert.is_true(#body <= size)
    end)

    it("has digests of tokens, and counts keys and paths by themselves", function()
        local one, two = paths("/a", "/b"), keys("keys v murmur2 2 0 ", "x")
        local three, four = keys("keys v murmur2 2 1 ", "y", "z"), paths("/c")
        two.tokens, four.tokens = { 2 }, { 1 }
        three.tokens, three.is_mixed = { 1, 0 }, true
        local body, of_keys, count, of_paths = point_batch.encode(
            { "d", "e" }, { one, two, three, four })
        assert.equal("tokens d,e\npaths 2 0\n/a\n/b\nkeys v murmur2 2 0 1 2\n\1x\n"
            .. "keys v murmur2 2 1 2 1,0\n\1y\n\1z\npaths 1 1\n/c", body)
        assert.same({ two, three }, of_keys)
        assert.same({ 3, 3 }, { count, of_paths })
        assert.same({ 0, 0, 1, 2 }, { one.first, two.first, three.first, four.first })
    end)
end)

local function batch()
    return { heads = {}, etags = {}, bodies = {}, lengths = {}, positions = {} }
end

local HEAD_ONE = "partition: 4\nserved-by: b1; active\nx: a: b\n"
local HEAD_TWO = "content-type: application/problem+json\n"

-- three paths with two heads; the second one must be sent by itself
local PATHS = "QTR2" .. u32(0, 2, 3, 200, #HEAD_ONE, 404, #HEAD_TWO, 0, 2, 5, ALONE, 0, 0, 1, 0, 4)
    .. "7-1" .. HEAD_ONE .. HEAD_TWO .. '"e' .. "value" .. "miss"

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
    it("has those of paths", function()
        local into = batch()
        assert.is_true(point_batch.decode(PATHS, {}, 0, 3, into))
        assert.equal("7-1", into.epoch)
        assert.same({
            status = 200,
            names = { "partition", "served-by", "x" },
            values = { "4", "b1; active", "a: b" },
            served_by = "b1; active",
        }, into.heads[1])
        assert.equal(false, into.heads[2])
        assert.equal(404, into.heads[3].status)
        assert.same({ '"e', "", "" }, into.etags)
        assert.same({ "value", "", "miss" }, into.bodies)
    end)

    it("has heads that differ in the timestamp of a record alone", function()
        local dated = HEAD_ONE .. "record-timestamp: 1400000000000\n"
        local later = HEAD_ONE .. "record-timestamp: 1400000000001\n"
        local into = batch()
        local answer = "QTR2" .. u32(0, 3, 0, 200, #dated, 200, #later, 404, #HEAD_ONE,
                                     0, 0, 0, 1, 0, 0, 2, 0, 0) .. dated .. later .. HEAD_ONE
        assert.is_true(point_batch.decode(answer, {}, 0, 3, into))
        local expected = { "1400000000000", "1400000000001", nil }
        for i = 1, 3 do
            assert.same({
                status = i < 3 and 200 or 404,
                names = { "partition", "served-by", "x" },
                values = { "4", "b1; active", "a: b" },
                served_by = "b1; active",
                timestamp = expected[i],
            }, into.heads[i])
        end
    end)

    it("has those of keys", function()
        local into, groups = batch(), two_groups()
        assert.is_true(point_batch.decode(KEYS, groups, 6, 0, into))
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
        for _, case in ipairs { { PATHS, {}, 0, 3 }, { KEYS, two_groups(), 6, 0 } } do
            local whole, groups, of_keys, of_paths = unpack(case)
            for size = 0, #whole - 1 do
                local into = batch()
                local ok, err = point_batch.decode(whole:sub(1, size), groups, of_keys, of_paths,
                                                   into)
                assert.is_nil(ok)
                assert.is_string(err)
                assert.same(batch(), into)
            end
            assert.is_nil(point_batch.decode(whole .. "x", groups, of_keys, of_paths, batch()))
        end
    end)

    it("is rejected if it answers another request", function()
        assert.is_nil(point_batch.decode(PATHS, {}, 0, 2, batch()))
        assert.is_nil(point_batch.decode(KEYS, { keys("", "a") }, 6, 0, batch()))
        assert.is_nil(point_batch.decode('{"by":"not a batch, but long"}', {}, 0, 1, batch()))
        assert.is_nil(point_batch.decode("QTR2" .. u32(0, 0, 0, 0, 0, 0), {}, 0, 1, batch()))
        assert.is_nil(point_batch.decode("QTR2" .. u32(0, 0xFFFFFFFF, 0), {}, 0, 1, batch()))
        -- shorter than an entry's head
        assert.is_nil(point_batch.decode("QTR2" .. u32(1, 0, 0, 0, 0, 0, 15) .. ("x"):rep(15),
                                         { keys("", "a") }, 1, 0, batch()))
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
            assert.is_true(point_batch.decode(answer, { group }, 1, 0, into))
            assert.is_nil(point_batch.status(into, group, 1))
        end
    end)

    it("may have no lines about the state of a partition", function()
        local group = keys("", "a")
        group.first = 0
        local answer = "QTR2" .. u32(1, 0, 0, #FIXED, 0, 0, #SMALL) .. FIXED .. SMALL
        assert.is_true(point_batch.decode(answer, { group }, 1, 0, batch()))
        assert.equal("", group.lines)
    end)

    it("takes lines of a name and a value as headers, and skips others", function()
        local lines = "a: b\n: c\nd\n" .. ("x"):rep(100000) .. "\ne: \nf: g"
        local answer = "QTR2" .. u32(0, 1, 3, 200, #lines, 0, 0, 0) .. "7-1" .. lines
        local into = batch()
        assert.is_true(point_batch.decode(answer, {}, 0, 1, into))
        assert.same({ "a", "e" }, into.heads[1].names)
        assert.same({ "b", "" }, into.heads[1].values)
    end)
end)
