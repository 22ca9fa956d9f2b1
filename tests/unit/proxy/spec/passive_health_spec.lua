local passive_health = require "proxy.passive_health"

local B1, B2, B3 = { name = "b1" }, { name = "b2" }, { name = "b3" }
local DEAD = { name = "dead", is_dead = true }

local POINT_READ, OTHER_REQUEST = true, false

--- The names in the order of the attempts; a bar follows the healthy ones.
local function order_of(health, backends, may_probe, now)
    local ordered, healthy = passive_health.order(health, backends, may_probe, now)
    local names = {}
    for index, backend in ipairs(ordered) do
        names[index] = backend.name .. (index == healthy and " |" or "")
    end
    return table.concat(names, " ")
end

describe("passive health", function()
    it("1 keeps the order if no backend failed", function()
        local health = passive_health.new()
        assert.equal("b1 b2 b3 |", order_of(health, { B1, B2, B3 }, POINT_READ, 1000))
        assert.equal(0, health.count)
        assert.equal("", order_of(health, {}, POINT_READ, 1000))
    end)

    it("2 puts backends that failed after the others, and the dead last", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        assert.equal(1, health.count)
        assert.equal("b2 b3 | b1 dead", order_of(health, { B1, B2, B3, DEAD }, POINT_READ, 1000.2))
        assert.equal("b1 | dead", order_of(passive_health.new(), { B1, DEAD }, POINT_READ, 1000))
    end)

    it("3 counts failed backends as healthy if there are no others", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        passive_health.failed(health, "b2", 1000, 1000)
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1000.1))
        assert.equal("b1 dead |", order_of(health, { B1, DEAD }, POINT_READ, 1000.1))
        assert.equal("dead |", order_of(health, { DEAD }, POINT_READ, 1000.1))
    end)

    it("4 lets one point read probe a backend after its time", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1000.24))
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, OTHER_REQUEST, 1000.25))
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1000.25))
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1000.25))
        -- the outcome is not known: the next point read probes
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1001.24))
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1001.25))
    end)

    it("5 probes only a backend that would be tried first", function()
        local health = passive_health.new()
        passive_health.failed(health, "b2", 1000, 1000)
        assert.equal("b1 | b2", order_of(health, { B1, B2 }, POINT_READ, 1001))
        passive_health.failed(health, "b1", 1001, 1001)
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1001))
    end)

    it("6 doubles the time with each failure, up to 10 s", function()
        local health = passive_health.new()
        local now, times = 1000, {}
        for index = 1, 8 do
            passive_health.failed(health, "b1", now, now + 0.5)
            local entry = health.by_name.b1
            assert.equal(index, entry.failures)
            times[index] = entry.retry_at - (now + 0.5)
            now = entry.retry_at
        end
        assert.same({ 0.25, 0.5, 1, 2, 4, 8, 10, 10 }, times)
    end)

    it("7 counts concurrent failures once", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 999.6, 1000)
        passive_health.failed(health, "b1", 999.7, 1000.1)
        passive_health.failed(health, "b1", 999.9, 1000.3)
        -- it was tried last during its time
        passive_health.failed(health, "b1", 1000.2, 1000.6)
        assert.equal(1, health.by_name.b1.failures)
        assert.equal(1000.25, health.by_name.b1.retry_at)
        passive_health.failed(health, "b1", 1000.3, 1000.7)
        assert.equal(2, health.by_name.b1.failures)
    end)

    it("8 removes the failures after one success", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        passive_health.failed(health, "b1", 1001, 1001)
        passive_health.succeeded(health, "b1")
        passive_health.succeeded(health, "b2")
        assert.equal(0, health.count)
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1001))
        passive_health.failed(health, "b1", 1001, 1001)
        assert.equal(1001.25, health.by_name.b1.retry_at)
    end)

    it("9 ends a probe when it fails", function()
        local health = passive_health.new()
        passive_health.failed(health, "b1", 1000, 1000)
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1000.25))
        passive_health.failed(health, "b1", 1000.25, 1000.65)
        assert.equal("b2 | b1", order_of(health, { B1, B2 }, POINT_READ, 1001.14))
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, POINT_READ, 1001.15))
    end)

    it("10 removes a backend that was not probed for 10 s after its time", function()
        local health = passive_health.new()
        passive_health.failed(health, "b2", 1000, 1000)
        passive_health.failed(health, "of an old topology", 1000, 1000)
        assert.equal("b1 | b2", order_of(health, { B1, B2 }, OTHER_REQUEST, 1010))
        assert.equal(2, health.count)
        assert.equal("b1 b2 |", order_of(health, { B1, B2 }, OTHER_REQUEST, 1011.1))
        assert.equal(0, health.count)
    end)
end)
