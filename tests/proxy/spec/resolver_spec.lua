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
        local steady, read, readings = clock.steady, 0, 0
        clock.steady = function()
            readings = readings + 1
            read = read + 600
            return read
        end
        resolver.addresses("localhost", 1000)
        assert.equal(2, readings)
        resolver.addresses("localhost", 1601)
        assert.equal(2, readings, "not at once")
        resolver.addresses("localhost", 1600 + 900)
        assert.equal(4, readings)
        clock.steady = steady
    end)
end)
