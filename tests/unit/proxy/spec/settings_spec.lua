local settings = require "proxy.settings"

describe("the settings", function()
    it("1 parse a list of backends", function()
        assert.same({ { host = "127.0.0.1", port = 8081 } }, settings.backends("127.0.0.1:8081"))
        assert.same({
            { host = "backend-1.local", port = 8081 }, { host = "[::1]", port = 82 },
            { host = "back_end", port = 65535 },
        }, settings.backends(" backend-1.local:8081 , [::1]:82,back_end:65535,"))
    end)

    it("2 name an invalid backend", function()
        for text, wrong in pairs {
            ["127.0.0.1"] = "'127.0.0.1' is not host:port or https://host:port",
            ["b1:8081,b2:x"] = "'b2:x' is not host:port or https://host:port",
            ["b1:0"] = "'b1:0' is not host:port or https://host:port",
            ["b1:65536"] = "'b1:65536' is not host:port or https://host:port",
            ["ftp://b1:80"] = "'ftp://b1:80' is not host:port or https://host:port",
            [" , "] = "it is empty",
        } do
            local backends, err = settings.backends(text)
            assert.is_nil(backends)
            assert.equal(wrong, err)
        end
    end)

    it("3 reject an invalid number of seconds", function()
        local getenv = os.getenv
        finally(function()
            os.getenv = getenv -- luacheck: ignore 122
        end)
        local invalid = { "often", "0", "0.009", "-1", "3601", "nan", "-nan", "inf", "0x10" }
        for variable, default in pairs {
            QUERYABLE_PROXY_REFRESH = 1, QUERYABLE_PROXY_READ_TIMEOUT = 0.4,
        } do
            for _, text in ipairs(invalid) do
                os.getenv = function(name) -- luacheck: ignore 122
                    return name == variable and text or nil
                end
                assert.has_error(settings.load, variable .. ": '" .. text .. "' is not a number of "
                    .. "seconds from 0.01 to 3600; the default is " .. default)
            end
        end
    end)

    it("4 parse backends that speak HTTPS, and the name that their certificates have", function()
        local text = "https://b1:8081,http://b2:8081,b3:8081"
        assert.same({
            { host = "b1", port = 8081, tls_name = "b1" },
            { host = "b2", port = 8081 }, { host = "b3", port = 8081 },
        }, settings.backends(text))
        assert.equal("backends", settings.backends(text, "backends")[1].tls_name)
        assert.is_nil(settings.backends(text, "backends")[2].tls_name)
    end)
end)
