local key_codec = require "proxy.key_codec"

local function hex(bytes)
    return bytes and (bytes:gsub(".", function(byte)
        return ("%02x"):format(byte:byte())
    end))
end

local function encoded(key_type, text)
    return hex(key_codec.encode(key_type, text))
end

describe("the key codec", function()
    it("1 gives strings and bytes as they are", function()
        for _, key_type in ipairs { "string", "bytes" } do
            assert.equal("a/b %", key_codec.encode(key_type, "a/b %"))
            assert.equal("\0\255\128", key_codec.encode(key_type, "\0\255\128"))
            assert.equal("", key_codec.encode(key_type, ""))
        end
    end)

    it("2 writes int32 big-endian", function()
        assert.equal("00000000", encoded("int32", "0"))
        assert.equal("00000000", encoded("int32", "-0"))
        assert.equal("0000002a", encoded("int32", "42"))
        assert.equal("0000002a", encoded("int32", "00000000000000000042"))
        assert.equal("ffffffff", encoded("int32", "-1"))
        assert.equal("7fffffff", encoded("int32", "2147483647"))
        assert.equal("80000000", encoded("int32", "-2147483648"))
    end)

    it("3 writes int64 big-endian, exactly beyond 2^53", function()
        assert.equal("0000000000000000", encoded("int64", "0"))
        assert.equal("ffffffffffffffff", encoded("int64", "-1"))
        assert.equal("0020000000000001", encoded("int64", "9007199254740993"))
        assert.equal("ffdfffffffffffff", encoded("int64", "-9007199254740993"))
        assert.equal("7fffffffffffffff", encoded("int64", "9223372036854775807"))
        assert.equal("8000000000000000", encoded("int64", "-9223372036854775808"))
        assert.equal("0000000000000007", encoded("int64", "00000000000000000007"))
        assert.equal("fffffffffffffff9", encoded("int64", "-00000000000000000007"))
    end)

    it("4 gives nothing for numbers out of range", function()
        for _, text in ipairs { "2147483648", "-2147483649", "99999999999" } do
            assert.is_nil(encoded("int32", text))
        end
        for _, text in ipairs {
            "9223372036854775808", "-9223372036854775809", "99999999999999999999",
        } do
            assert.is_nil(encoded("int64", text))
        end
    end)

    it("5 gives nothing for what is no number", function()
        for _, text in ipairs {
            "", "-", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "--1", "1_0", "٣",
            -- backends read 20 digits at most
            "000000000000000000007", "-000000000000000000007", ("0"):rep(32000) .. "x",
        } do
            assert.is_nil(encoded("int32", text))
            assert.is_nil(encoded("int64", text))
        end
    end)

    it("6 writes a uuid as its lower-case text", function()
        local text = "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e11"
        assert.equal(text, key_codec.encode("uuid", text))
        assert.equal(text, key_codec.encode("uuid", text:upper()))
    end)

    it("7 gives nothing for what is no uuid", function()
        for _, text in ipairs {
            "", "0b4b7e367e2d4d5c9a0f3b1f0a7c9e11", "{0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e11}",
            "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e1", "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e1g",
            "0b4b7e3-67e2d-4d5c-9a0f-3b1f0a7c9e11", "0b4b7e36-7e2d-4d5c-9a0f3-b1f0a7c9e11",
        } do
            assert.is_nil(key_codec.encode("uuid", text))
        end
    end)

    it("8 leaves all other types to the backends", function()
        for _, key_type in ipairs { "float64", "json", "avro", "something" } do
            assert.is_nil(key_codec.encode(key_type, "1"))
        end
    end)
end)
