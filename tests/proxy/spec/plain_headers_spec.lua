local plain_headers = require "proxy.plain_headers"

local function with(more)
    local headers = {
        host = "localhost:8080",
        ["user-agent"] = "curl/7.88.1",
        accept = "*/*",
        ["x-forwarded-proto"] = "https",
        ["x-empty"] = "",
    }
    for name, value in pairs(more) do
        headers[name] = value
    end
    return headers
end

describe("plain headers", function()
    it("1 are those of ordinary clients", function()
        assert.is_true(plain_headers.are_plain(with {}))
        assert.is_true(plain_headers.are_plain(with { ["x-long"] = ("x"):rep(7000) }))
    end)

    it("2 are none that a backend might refuse", function()
        for _, more in ipairs {
            { accept = { "*/*", "text/plain" } },
            { ["x-a"] = { "1", "2" } },
            { ["x-a"] = "a\1b" },
            { ["x-a"] = "a\127b" },
            { ["x-a"] = "\255" },
            { ["x-a"] = "a\tb" },
            { ["x-a"] = ("x"):rep(8000) },
            { [("x"):rep(8000)] = "1" },
            { ["x-forwarded-ssl"] = "on" },
            { ["x-forwarded-protocol"] = "ssl" },
        } do
            assert.is_false(plain_headers.are_plain(with(more)))
        end
    end)
end)
