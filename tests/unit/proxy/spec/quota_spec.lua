local quota = require "proxy.security.quota"

--- A shared dict with the operations that quota uses.
local function new_dict()
    local values = {}
    return {
        values = values,
        get = function(_, key) return values[key] end,
        add = function(_, key, value)
            if values[key] ~= nil then
                return false, "exists"
            end
            values[key] = value
            return true
        end,
        incr = function(_, key, value, init)
            if values[key] == nil and not init then
                return nil, "not found"
            end
            values[key] = (values[key] or init) + value
            return values[key]
        end,
        delete = function(_, key) values[key] = nil end,
    }
end

--- How many of `count` requests at this time are within the quota.
local function admitted(dict, of, now, count)
    local number = 0
    for _ = 1, count do
        number = number + (quota.take(dict, of, now) and 0 or 1)
    end
    return number
end

describe("quota", function()
    it("is parsed", function()
        local of = quota.parse("v", "5000/s")
        assert.same({ 5000, 5000 }, { of.rate, of.capacity })
        of = quota.parse("v", "30/m")
        assert.same({ 0.5, 30 }, { of.rate, of.capacity })
        for _, text in ipairs { "", "5000", "0/s", "-1/s", "1/h", "1.5/s", " 1/s", "1/s " } do
            assert.is_nil(quota.parse("v", text), text)
        end
        assert.is_nil(quota.parse("v", nil))
    end)

    it("admits its requests at once, and then as many as it refills", function()
        local dict, of = new_dict(), quota.parse("v", "10/s")
        assert.equals(10, admitted(dict, of, 1000, 50))
        assert.equals(0, admitted(dict, of, 1000, 50))
        assert.equals(5, admitted(dict, of, 1000.5, 50))
        assert.equals(1, admitted(dict, of, 1000.6, 50))
    end)

    it("does not count a request whose token is given back", function()
        local dict, of = new_dict(), quota.parse("v", "10/s")
        assert.equals(10, admitted(dict, of, 1000, 50))
        quota.give_back(dict, of)
        assert.equals(1, admitted(dict, of, 1000, 50))
    end)

    it("keeps no more than its capacity", function()
        local dict, of = new_dict(), quota.parse("v", "10/s")
        assert.equals(1, admitted(dict, of, 1000, 1))
        -- the one that finds the surplus is admitted in addition
        local number = admitted(dict, of, 5000, 50)
        assert.is_true(number == 10 or number == 11)
        assert.equals(0, admitted(dict, of, 5000, 50))
    end)

    it("counts the requests of another worker while one discards", function()
        local dict, of = new_dict(), quota.parse("v", "10/s")
        admitted(dict, of, 1000, 1)
        local add, others = dict.add, 0
        dict.add = function(...)
            dict.add = add
            local has_lock = add(...)
            others = admitted(dict, of, 5000, 5)
            return has_lock
        end
        local number = admitted(dict, of, 5000, 50) + others
        assert.is_true(number == 10 or number == 11, tostring(number))
    end)

    it("says when the next token is there", function()
        local dict, of = new_dict(), quota.parse("v", "6/m")
        admitted(dict, of, 1000, 6)
        assert.equals(10, quota.take(dict, of, 1000))
        assert.equals(4, math.floor(quota.take(dict, of, 1006) + 0.5))
        assert.is_nil(quota.take(dict, of, 1010))
    end)

    it("is exact over a long time", function()
        local dict, of, number = new_dict(), quota.parse("v", "100/s"), 0
        for ms = 0, 9999 do
            number = number + admitted(dict, of, 1.7e9 + ms / 1000, 1)
        end
        -- 10 s at 100/s, and the bucket that was full
        assert.is_true(math.abs(number - 1100) <= 2, tostring(number))
    end)

    it("leaves nothing locked", function()
        local dict, of = new_dict(), quota.parse("v", "10/s")
        admitted(dict, of, 1000, 1)
        admitted(dict, of, 2000, 1)
        assert.is_nil(dict.values[of.lock])
    end)

    it("admits requests if the dict is full", function()
        local full = { incr = function() return nil, "no memory" end }
        assert.is_nil(quota.take(full, quota.parse("v", "1/s"), 1))
    end)
end)
