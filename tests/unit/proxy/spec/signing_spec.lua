local crypto = require "proxy.security.crypto"
local settings = require "proxy.settings"
local signing = require "proxy.security.signing"

local SECRET = ("s"):rep(32)

describe("the signature of a request", function()
    after_each(function()
        settings.cluster_secret_file = nil
        signing.load()
    end)

    it("1 is as documented", function()
        -- computed with `openssl dgst -sha256 -hmac`
        assert.equal(
            "1800000000000:0a:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855:"
                .. "d31dea80054e576b1b90a3c57ad294dfb55df40d3c572417bc01ad5b7c8b7c55",
            signing.signature(crypto.key("key"), "GET", "/processors", 1800000000000, "0a", "*",
                              ""))
    end)

    it("2 does not exist without a secret", function()
        settings.cluster_secret_file = nil
        signing.load()
        assert.is_nil(signing.sign("GET", "/processors", "*", ""))
    end)

    it("3 reads one or two secrets, one a line", function()
        assert.same({ SECRET }, signing.parse(SECRET))
        local text = "\n " .. SECRET .. "\r\n" .. SECRET .. "2\n\n"
        assert.same({ SECRET, SECRET .. "2" }, signing.parse(text))
    end)

    it("4 refuses other files, and does not repeat their text", function()
        for text, wrong in pairs {
            [""] = "it has 0 secrets; one or two are allowed, one a line",
            [(SECRET .. "\n"):rep(3)] = "it has 3 secrets; one or two are allowed, one a line",
            [SECRET:sub(2)] = "a secret has 31 bytes; at least 32 are needed. Create one with: "
                .. "openssl rand -hex 32",
            [("s"):rep(4097)] = "it has more than 4096 bytes",
        } do
            local secrets, err = signing.parse(text)
            assert.is_nil(secrets)
            assert.equal(wrong, err)
        end
    end)

    it("5 names a file that cannot be read", function()
        settings.cluster_secret_file = "/nowhere/secret"
        assert.has_error(signing.load, "QUERYABLE_CLUSTER_SECRET_FILE: /nowhere/secret: "
            .. "/nowhere/secret: No such file or directory")
        settings.cluster_secret_file = "/"
        assert.has_error(signing.load)
    end)
end)
