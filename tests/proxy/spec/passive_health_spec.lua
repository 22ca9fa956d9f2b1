local passive_health = require "proxy.passive_health"

local B1, B2, B3 = { name = "b1" }, { name = "b2" }, { name = "b3" }
local DEAD = { name = "dead", is_dead = true }

local POINT_READ, ANYTHING_ELSE = true, false

--- The names in the order in which they are asked, the good ones before the bar.
local function order_of(health, backends, may_try, now)
    local ordered, good = passive_health.order(health, backends, may_try, now)
    local names = {}
    for index, backend in ipairs(ordered) do
        names[index] = backend.name .. (index == good and " |" or "")
    end
    return table.concat(names, " ")
end

describe("passive health", function()
    it("1 leaves the order as it is where nobody fails", function()
        local health = passive_health.new()
        assert.equal("b1 b2 b3 |", order_of(health, { B1, B2, B3 }, POINT_READ, 1000))
        assert.equal(0, health.count)
        assert.equal("", order_of(health, {}, POINT_READ, 1000))
    end)

    it("2 asks who failed after the others, and the dead last", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        assert.equal(1, health.count)
        assert.equal("b2 b3 | b1 dead", order_of(health, { B1, B2, B3, DEAD }, POINT_READ, 1000.2))
        assert.equal("b1 | dead", order_of(passive_health.new(), { B1, DEAD }, POINT_READ, 1000))
    end)

    it("3 takes those who failed for good where nobody is better", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        passive_health.failed(health, "b2", 1000, 1000)
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1000.1))
        assert.equal("b1 dead |", order_of(health, { B1, DEAD }, POINT_READ, 1000.1))
        assert.equal("dead |", order_of(health, { DEAD }, POINT_READ, 1000.1))
    end)

    it("4 lets one point read try it when the time is over", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1000.24))
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, ANYTHING_ELSE, 1000.25))
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1000.25))
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1000.25))
        -- nothing was heard of it: the next one
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1001.24))
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1001.25))
    end)

    it("5 never tries who would not be the first to be asked", function()
        local health = passive_health.new()
        passive_health.failed(health, "b2", 1000, 1000)
        assert.equal("b1 | b2", order_of(health, { B1, B2 }, POINT_READ, 1001))
        passive_health.failed(health, "b1", 1001, 1001)
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1001))
    end)

    it("6 doubles the time with each failure, up to ten seconds", function()
        local health = passive_health.new()
        local now, times = 1000, {}
        for index = 1, 8 do
            passive_health.failed(health, "b1", now, now + 0.5)
            local entry = health.by_name.b1
            assert.equal(index, entry.failures)
            times[index] = entry.till - (now + 0.5)
            now = entry.till
        end
        assert.same({ 0.25, 0.5, 1, 2, 4, 8, 10, 10 }, times)
    end)

    it("7 counts once what was under way at the same time", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 999.6, 1000)
        passive_health.failed(health, "b1", 999.7, 1000.1)
        passive_health.failed(health, "b1", 999.9, 1000.3)
        -- asked as the last one, while it was left out
        passive_health.failed(health, "b1", 1000.2, 1000.6)
        assert.equal(1, health.by_name.b1.failures)
        assert.equal(1000.25, health.by_name.b1.till)
        passive_health.failed(health, "b1", 1000.3, 1000.7)
        assert.equal(2, health.by_name.b1.failures)
    end)

    it("8 ends it with one success", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        passive_health.failed(health, "b1", 1001, 1001)
        passive_health.succeeded(health, "b1")
        passive_health.succeeded(health, "b2")
        assert.equal(0, health.count)
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1001))
        passive_health.failed(health, "b1", 1001, 1001)
        assert.equal(1001.25, health.by_name.b1.till)
    end)

    it("9 ends a trial with its failure", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1000.25))
        passive_health.failed(health, "b1", 1000.25, 1000.65)
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1001.14))
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1001.15))
    end)

    it("10 forgets who has not been tried for ten seconds after its time", function()
        local health = passive_health.new()
        passive_health.failed(health, "b2", 1000, 1000)
        passive_health.failed(health, "of an old map", 1000, 1000)
        assert.equal("b1 | b2", order_of(health, { B1, B2 }, ANYTHING_ELSE, 1010))
        assert.equal(2, health.count)
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, ANYTHING_ELSE, 1011.1))
        assert.equal(0, health.count)
    end)
end)
