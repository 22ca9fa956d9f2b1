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
end)
