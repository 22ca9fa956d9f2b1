local browser_rules = require "proxy.security.browser_rules"

describe("browser_rules", function()
    local rules = browser_rules.new({ "q.example.com", ".internal.example.com" })

    it("allows addresses, names that nobody can register, and listed names", function()
        for _, host in ipairs {
            "", "127.0.0.1", "127.0.0.1:8081", "10.1.2.3:80", "[::1]:8081", "[fe80::1]",
            "localhost", "LOCALHOST:8080", "localhost.:8080", "a.localhost", "backend-1:8081",
            "q.example.com", "Q.Example.Com.:443", "a.internal.example.com",
            "a.b.internal.example.com", "b_1:",
        } do
            assert.is_true(browser_rules.allows_host(rules, host), host)
            assert.is_true(browser_rules.allows_host(rules, host), host)
        end
        assert.is_true(browser_rules.allows_host(rules, nil))
    end)

    it("refuses other hosts", function()
        for _, host in ipairs {
            "evil.example", "evil.example:8081", "q.example.com.evil.example", "aq.example.com",
            "internal.example.com", "evilinternal.example.com", "127.0.0.1.evil.example",
            "127.0.0.1@evil.example", "evil.example#localhost", "localhost/evil.example",
            "localhost,evil.example", "1.2.3", "1.2.3.4.5", "1.2.3.256", "[::1", "::1:80",
            "[::1]evil.example", "localhost:80:80", "localhost:x", "a b", "a\tb", "b\252cher",
            "localhost\0", ".", "..", ".localhost", "a..localhost",
        } do
            assert.is_false(browser_rules.allows_host(rules, host), host)
            assert.is_false(browser_rules.allows_host(rules, host), host)
        end
    end)

    it("allows any host with *", function()
        assert.is_true(browser_rules.allows_host(browser_rules.new({ "*" }), "evil.example"))
    end)

    it("remembers few hosts", function()
        local some = browser_rules.new()
        for i = 1, 2500 do
            browser_rules.allows_host(some, "h" .. i)
        end
        local count = 0
        for _ in pairs(some.known) do
            count = count + 1
        end
        assert.is_true(count <= 1000)
    end)

    it("takes a list that is none for no names", function()
        for _, names in ipairs { 1, "evil.example", true } do
            assert.is_false(browser_rules.allows_host(browser_rules.new(names), "evil.example"))
        end
    end)

    it("refuses nginx's own pages to pages of other sites", function()
        local host = "127.0.0.1:8080"
        for _, case in ipairs {
            { nil, nil, nil }, { nil, "same-origin", nil }, { nil, "none", nil },
            { "http://127.0.0.1:8080", nil, nil }, { nil, "cross-site", "cross-site" },
            { nil, "none, cross-site", "cross-site" },
            { "https://evil.example", nil, "cross-site" },
            { "null", nil, "cross-site" }, { "http://127.0.0.1:3000", nil, "cross-site" },
            { "ftp://127.0.0.1:8080", nil, "cross-site" }, { "", nil, "cross-site" },
        } do
            assert.equals(case[3], browser_rules.refuses(rules, host, case[1], case[2]))
        end
        assert.equals("host-not-allowed", browser_rules.refuses(rules, "evil.example"))
        assert.is_nil(browser_rules.refuses(rules, "q.example.com", "https://q.example.com:443"))
    end)
end)
