local key_codec = require "proxy.key_codec"

local function hex(bytes)
    return bytes and (bytes:gsub(".", function(byte)
        return ("%02x"):format(byte:byte())
    end))
end

local function encoded(format, text)
    return hex(key_codec.codec(format)(text))
end

describe("the key codec", function()
    it("1 leaves strings, bytes and JSON unchanged", function()
        for _, format in ipairs { "string", "bytes", "json" } do
            assert.equal("a/b %", key_codec.codec(format)("a/b %"))
            assert.equal("\0\255\128", key_codec.codec(format)("\0\255\128"))
            assert.equal("", key_codec.codec(format)(""))
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

    it("4 rejects numbers out of range", function()
        for _, text in ipairs { "2147483648", "-2147483649", "99999999999" } do
            assert.is_nil(encoded("int32", text))
        end
        for _, text in ipairs {
            "9223372036854775808", "-9223372036854775809", "99999999999999999999",
        } do
            assert.is_nil(encoded("int64", text))
        end
    end)

    it("5 rejects text that is not an integer", function()
        for _, text in ipairs {
            "", "-", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "--1", "1_0", "٣",
            -- backends accept at most 20 digits
            "000000000000000000007", "-000000000000000000007", ("0"):rep(32000) .. "x",
        } do
            assert.is_nil(encoded("int32", text))
            assert.is_nil(encoded("int64", text))
        end
    end)

    it("6 keeps a uuid as it is written: capitals are another record key", function()
        local text = "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e11"
        assert.equal(text, key_codec.codec("uuid")(text))
        assert.equal(text:upper(), key_codec.codec("uuid")(text:upper()))
    end)

    it("7 rejects text that is not a uuid", function()
        for _, text in ipairs {
            "", "0b4b7e367e2d4d5c9a0f3b1f0a7c9e11", "{0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e11}",
            "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e1", "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e1g",
            "0b4b7e3-67e2d-4d5c-9a0f-3b1f0a7c9e11", "0b4b7e36-7e2d-4d5c-9a0f3-b1f0a7c9e11",
        } do
            assert.is_nil(key_codec.codec("uuid")(text))
        end
    end)

    it("8 writes float64 big-endian, with a negative zero", function()
        assert.equal("0000000000000000", encoded("float64", "0"))
        assert.equal("8000000000000000", encoded("float64", "-0"))
        assert.equal("3ff0000000000000", encoded("float64", "+1."))
        assert.equal("3fe0000000000000", encoded("float64", ".5"))
        assert.equal("c0fe240c9fbe76c9", encoded("float64", "-123456.789"))
        assert.equal("0000000000000001", encoded("float64", "5e-324"))
        assert.equal("7fefffffffffffff", encoded("float64", "1.7976931348623157E+308"))
        assert.equal("7ff0000000000000", encoded("float64", "1e99999"))
        assert.equal("7ff8000000000000", encoded("float64", "NaN"))
        assert.equal("7ff0000000000000", encoded("float64", "Infinity"))
        assert.equal("fff0000000000000", encoded("float64", "-Infinity"))
    end)

    it("9 rejects text that is not a float64, and numbers that only backends parse", function()
        for _, text in ipairs {
            "", ".", "-", "+", "e5", ".e5", "1e", "1e+", "1 ", " 1", "0x10", "0x1p3", "nan", "inf",
            "infinity", "+Infinity", "-NaN", "1_0", "1,5", "--1", "1.5.5", "1LL", "1i", "٣",
            "1e100000", ("1"):rep(65), ("0"):rep(32000) .. "x",
        } do
            assert.is_nil(encoded("float64", text))
        end
    end)

    it("10 writes Avro's primitive types", function()
        local function avro(fingerprint, text)
            return hex(key_codec.codec("avro", fingerprint)(text))
        end
        local BOOLEAN, INT, LONG = "64f7d4a478fc429f", "8f5c393f1ad57572", "b71df49344e154d0"
        local FLOAT, DOUBLE = "90d7a83ecb027c4d", "7e95ab32c035758e"
        local STRING = "c70345637248018f"
        assert.equal("01", avro(BOOLEAN, "true"))
        assert.equal("00", avro(BOOLEAN, "false"))
        assert.equal("03", avro(INT, "-2"))
        assert.equal("00", avro(INT, "-0"))
        assert.equal("8001", avro(INT, "64"))
        assert.equal("feffffff0f", avro(INT, "2147483647"))
        assert.equal("ffffffff0f", avro(INT, "-2147483648"))
        assert.equal("feffffffffffffffff01", avro(LONG, "9223372036854775807"))
        assert.equal("ffffffffffffffffff01", avro(LONG, "-9223372036854775808"))
        assert.equal("0000c03f", avro(FLOAT, "1.5"))
        assert.equal("000000000000f83f", avro(DOUBLE, "1.5"))
        assert.equal("0000000000000000", avro(DOUBLE, "-0"))
        assert.equal("0000000000000080", avro(DOUBLE, "-0.0"))
        assert.equal("00", avro(STRING, '""'))
        assert.equal("06e697a5", avro(STRING, '"日"'))
        for fingerprint, texts in pairs {
            [BOOLEAN] = { "", "TRUE", "1", '"true"' },
            [INT] = { "", "-", "01", "-01", "+1", "1.0", "1e1", "2147483648", '"2013-12-29"' },
            [LONG] = { "9223372036854775808", "0x1", "null" },
            [FLOAT] = { "1e39", "01", "1.", ".5", "+1", "NaN" },
            [DOUBLE] = { "1e309", "Infinity", '"NaN"', "1.e5", "-.5", "1e" },
            [STRING] = { "", "a", '"', '"a', 'a"', '"a"b"', '"\\n"', '"\n"', '"\0"', ' "a"' },
        } do
            for _, text in ipairs(texts) do
                assert.is_nil(avro(fingerprint, text), text)
            end
        end
    end)

    it("11 does not route other formats", function()
        for _, format in ipairs { "avro", "protobuf", "none" } do
            assert.is_nil(key_codec.codec(format))
        end
        assert.is_nil(key_codec.codec("avro", "confluent"))
        -- bytes: a decimal number or base64url
        assert.is_nil(key_codec.codec("avro", "651920c3da16c04f"))
    end)
end)
