local clock = require "proxy.telemetry.clock"
local resolver = require "proxy.resolver"

describe("the resolver", function()
    it("1 returns addresses unchanged", function()
        assert.same({ "10.1.2.3" }, resolver.addresses("10.1.2.3", 0))
        assert.same({ "[::1]" }, resolver.addresses("[::1]", 0))
    end)

    it("2 resolves names as the system does", function()
        local addresses = resolver.addresses("localhost", 0)
        assert.is_true(addresses[1] == "127.0.0.1" or addresses[1] == "[::1]")
    end)

    it("3 returns no address for an unknown name", function()
        -- a label has at most 63 letters, so this fails without a DNS query
        assert.same({}, resolver.addresses(("x"):rep(64), 0))
    end)

    it("4 looks names up again soon after the worker was stopped in a look-up", function()
        local readings = {}
        for number = 1, 60 do
            resolver.addresses(("x"):rep(64 + number), 0, "10.0.0." .. number)
        end
        local steady, read = clock.steady, 0
        clock.steady = function()
            read = read + 600
            return read
        end
        for _, now in ipairs({ 1000, 1601, 1600 + 300 }) do
            local before = read
            resolver.addresses("localhost", now)
            readings[#readings + 1] = (read - before) / 600
        end
        clock.steady = steady
        assert.same({ 2, 0, 2 }, readings, "look-ups, in which the clock is read twice")
    end)
end)
