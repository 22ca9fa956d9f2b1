local reads_wire = require "proxy.reads_wire"

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

-- three answers with two heads; the second of them has to be asked alone
local WHOLE = "QTR1" .. u32(3, 2, 3, 200, #ONE, 404, #TWO, 0, 2, 5, ALONE, 0, 0, 1, 0, 4)
    .. "7-1" .. ONE .. TWO .. '"e' .. "value" .. "miss"

local function batch()
    return { heads = {}, etags = {}, bodies = {} }
end

describe("answers that travelled together", function()
    it("are taken apart", function()
        local into = batch()
        assert.is_true(reads_wire.decode(WHOLE, 3, into))
        assert.equal("7-1", into.epoch)
        assert.same({
            status = 200,
            names = { "partition", "served-by", "x" },
            values = { "4", "b1; active", "a: b" },
        }, into.heads[1])
        assert.equal(false, into.heads[2])
        assert.equal(404, into.heads[3].status)
        assert.same({ '"e', "", "" }, into.etags)
        assert.same({ "value", "", "miss" }, into.bodies)
    end)

    it("are refused unless they are whole, and then leave nothing behind", function()
        for size = 0, #WHOLE - 1 do
            local into = batch()
            local ok, err = reads_wire.decode(WHOLE:sub(1, size), 3, into)
            assert.is_nil(ok)
            assert.is_string(err)
            assert.same(batch(), into)
        end
        assert.is_nil(reads_wire.decode(WHOLE .. "x", 3, batch()))
    end)

    it("are refused if they answer something else", function()
        assert.is_nil(reads_wire.decode(WHOLE, 2, batch()))
        assert.is_nil(reads_wire.decode('{"by":"somebody else, who says quite a lot"}', 1, batch()))
        local headless = "QTR1" .. u32(1, 0, 0, 0, 0, 0)
        assert.is_nil(reads_wire.decode(headless, 1, batch()))
        local large = "QTR1" .. u32(1, 0xFFFFFFFF, 0)
        assert.is_nil(reads_wire.decode(large, 1, batch()))
    end)

    it("have headers that are lines of a name and a value, all else is left out", function()
        local lines = "a: b\n: c\nd\n" .. ("x"):rep(100000) .. "\ne: \nf: g"
        local answer = "QTR1" .. u32(1, 1, 3, 200, #lines, 0, 0, 0) .. "7-1" .. lines
        local into = batch()
        assert.is_true(reads_wire.decode(answer, 1, into))
        assert.same({ "a", "e" }, into.heads[1].names)
        assert.same({ "b", "" }, into.heads[1].values)
    end)
end)
