local point_batch = require "proxy.point_batch"

local function u32(...)
    local bytes = {}
    for _, number in ipairs { ... } do
        for shift = 0, 3 do
            bytes[#bytes + 1] = string.char(math.floor(number / 256 ^ shift) % 256)
        end
    end
    return table.concat(bytes)
end

local ALONE = 0xFFFFFFFF
local ONE = "partition: 4\nserved-by: b1; active\nx: a: b\n"
local TWO = "content-type: application/problem+json\n"

-- three items with two heads; the second item must be sent by itself
local WHOLE = "QTR1" .. u32(3, 2, 3, 200, #ONE, 404, #TWO, 0, 2, 5, ALONE, 0, 0, 1, 0, 4)
    .. "7-1" .. ONE .. TWO .. '"e' .. "value" .. "miss"

local function groups(...)
    local made = { ... }
    for _, group in ipairs(made) do
        group.count = #group.paths
        made[group.token] = group
    end
    return made
end

describe("a batch of reads", function()
    it("is the lines of its paths if there are no tokens", function()
        local reads = groups { token = "", paths = { "/a", "/b", "/a" } }
        assert.equal("/a\n/b\n/a", point_batch.encode(reads))
        assert.equal(0, reads[1].first)
        assert.equal(0, point_batch.token_bytes(""))
    end)

    it("names each token once, after the reads without a token", function()
        local one = { token = "one", paths = { "/a", "/b" } }
        local without = { token = "", paths = { "/c", "/d", "/e" } }
        local two = { token = "two", paths = { "/f" } }
        local body = point_batch.encode(groups(one, without, two))
        assert.equal("/c\n/d\n/e\ntoken:one\n/a\n/b\ntoken:two\n/f", body)
        assert.same({ 3, 0, 5 }, { one.first, without.first, two.first })
    end)

    it("may have tokens alone", function()
        local one = { token = "one", paths = { "/a" } }
        local body = point_batch.encode(groups(one))
        assert.equal("token:one\n/a", body)
        assert.equal(#body, point_batch.token_bytes("one") + #"/a")
        assert.equal(0, one.first)
    end)
end)

local function batch()
    return { heads = {}, etags = {}, bodies = {} }
end

describe("a batch of answers", function()
    it("is decoded", function()
        local into = batch()
        assert.is_true(point_batch.decode(WHOLE, 3, into))
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

    it("is rejected unless it is complete, and then changes nothing", function()
        for size = 0, #WHOLE - 1 do
            local into = batch()
            local ok, err = point_batch.decode(WHOLE:sub(1, size), 3, into)
            assert.is_nil(ok)
            assert.is_string(err)
            assert.same(batch(), into)
        end
        assert.is_nil(point_batch.decode(WHOLE .. "x", 3, batch()))
    end)

    it("is rejected if it answers another request", function()
        assert.is_nil(point_batch.decode(WHOLE, 2, batch()))
        assert.is_nil(point_batch.decode('{"by":"not a batch, but long enough"}', 1, batch()))
        local headless = "QTR1" .. u32(1, 0, 0, 0, 0, 0)
        assert.is_nil(point_batch.decode(headless, 1, batch()))
        local large = "QTR1" .. u32(1, 0xFFFFFFFF, 0)
        assert.is_nil(point_batch.decode(large, 1, batch()))
    end)

    it("takes lines of a name and a value as headers, and skips others", function()
        local lines = "a: b\n: c\nd\n" .. ("x"):rep(100000) .. "\ne: \nf: g"
        local answer = "QTR1" .. u32(1, 1, 3, 200, #lines, 0, 0, 0) .. "7-1" .. lines
        local into = batch()
        assert.is_true(point_batch.decode(answer, 1, into))
        assert.same({ "a", "e" }, into.heads[1].names)
        assert.same({ "b", "" }, into.heads[1].values)
    end)
end)
