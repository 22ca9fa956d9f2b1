local resolver = require "proxy.resolver"

describe("the resolver", function()
    it("1 gives addresses as they are", function()
        assert.same({ "10.1.2.3" }, resolver.addresses("10.1.2.3", 0))
        assert.same({ "[::1]" }, resolver.addresses("[::1]", 0))
    end)

    it("2 looks names up as the system does", function()
        local addresses = resolver.addresses("localhost", 0)
        assert.is_true(addresses[1] == "127.0.0.1" or addresses[1] == "[::1]")
    end)

    it("3 gives nothing for a name that nobody knows", function()
        -- a label has 63 letters at most: refused without asking anybody
        assert.same({}, resolver.addresses(("x"):rep(64), 0))
    end)
end)
