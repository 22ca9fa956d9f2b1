local crypto = require "proxy.security.crypto"

describe("the hash of a text", function()
    it("is that of FIPS 180-4", function()
        assert.equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                     crypto.hash(""))
        assert.equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                     crypto.hash("abc"))
    end)
end)

describe("the HMAC of a text", function()
    -- RFC 4231, test cases 2 and 6; the second key is longer than a block
    local CASES = {
        { "Jefe", "what do ya want for nothing?",
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { ("\170"):rep(131), "Test Using Larger Than Block-Size Key - Hash Key First",
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
    }

    it("is that of RFC 4231, each time", function()
        for _, case in ipairs(CASES) do
            local key = crypto.key(case[1])
            for _ = 1, 2 do
                assert.equal(case[3], crypto.mac_hex(key, case[2]))
                assert.equal(32, #crypto.mac(key, "another one"))
            end
        end
    end)
end)

describe("random bytes", function()
    it("are in hex, and others each time", function()
        local first, second = crypto.random_hex(8), crypto.random_hex(8)
        assert.is_truthy(first:match("^%x+$"))
        assert.equal(16, #first)
        assert.not_equal(first, second)
    end)
end)
