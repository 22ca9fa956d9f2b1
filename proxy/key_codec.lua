--- Encodes a key's text, percent-decoded from a URL, as the bytes of the record key, like Kafka's
-- own serializers and Avro's binary encoding. A codec returns nil for invalid text and for text
-- that only backends parse: the request then goes to any backend. Pure; tests/vectors/ pins it.

local bit = require "bit"
local ffi = require "ffi"

local arshift, band, bor, bxor = bit.arshift, bit.band, bit.bor, bit.bxor
local lshift, rshift = bit.lshift, bit.rshift
local char = string.char

local _M = {}

-- magnitudes as text without leading zeros: texts of equal length compare like numbers
local INT64_MAX, INT64_MIN = "9223372036854775807", "9223372036854775808"

-- digits that backends accept in an integer
local MAX_DIGITS = 20
-- only backends parse longer numbers, and exponents with more digits
local MAX_FLOAT_BYTES, MAX_EXPONENT_DIGITS = 64, 5

local function as_is(text)
    return text
end

--- "" or "-", and the digits without leading zeros; nil if the text is not an integer.
local function parse_integer(text)
    -- check the size first: patterns may take quadratic time
    if #text > MAX_DIGITS + 1 then
        return nil
    end
    local sign, digits = text:match("^(%-?)(%d+)$")
    if not sign or #digits > MAX_DIGITS then
        return nil
    end
    return sign, digits:match("^0*(%d+)$")
end

local function parse_int32(text)
    local sign, digits = parse_integer(text)
    if not sign or #digits > 10 then
        return nil
    end
    local value = tonumber(sign .. digits)
    if value < -2147483648 or value > 2147483647 then
        return nil
    end
    return value
end

local function parse_int64(text)
    local sign, digits = parse_integer(text)
    if not sign then
        return nil
    end
    local limit = sign == "-" and INT64_MIN or INT64_MAX
    if #digits > 19 or (#digits == 19 and digits > limit) then
        return nil
    end
    -- 64-bit integers, as doubles are exact only to 2^53; the lowest number wraps as intended
    local value = 0LL
    for i = 1, #digits do
        value = value * 10LL + (digits:byte(i) - 48)
    end
    return sign == "-" and -value or value
end

local function int32(text)
    local value = parse_int32(text)
    return value and char(band(rshift(value, 24), 0xff), band(rshift(value, 16), 0xff),
                          band(rshift(value, 8), 0xff), band(value, 0xff))
end

local function int64(text)
    local value = parse_int64(text)
    if not value then
        return nil
    end
    local bytes = {}
    for i = 8, 1, -1 do
        bytes[i] = char(tonumber(band(value, 0xffLL)))
        value = rshift(value, 8)
    end
    return table.concat(bytes)
end

-- little-endian, like every machine on which nginx runs LuaJIT
local as_double = ffi.new("union { double number; uint8_t bytes[8]; }")
local as_float = ffi.new("union { float number; uint8_t bytes[4]; }")

--- The sign, digits before and after the point, and number without its sign; nil if the text is not
-- a decimal number. LuaJIT rounds decimal numbers as Python does.
local function parse_decimal(text)
    if #text > MAX_FLOAT_BYTES then
        return nil
    end
    local sign, unsigned = text:match("^([+-]?)(.*)$")
    local whole, fraction, exponent = unsigned:match("^(%d*)(%.?%d*)(.*)$")
    if exponent ~= "" then
        local digits = exponent:match("^[eE][+-]?(%d+)$")
        if not digits or #digits > MAX_EXPONENT_DIGITS then
            return nil
        end
    end
    if whole == "" and #fraction < 2 then
        return nil
    end
    return sign, whole, fraction, tonumber(unsigned)
end

local FLOAT64_TEXTS = {
    ["NaN"] = "\127\248\0\0\0\0\0\0",
    ["Infinity"] = "\127\240\0\0\0\0\0\0",
    ["-Infinity"] = "\255\240\0\0\0\0\0\0",
}

local function float64(text)
    local sign, _, _, number = parse_decimal(text)
    if not number then
        return FLOAT64_TEXTS[text]
    end
    as_double.number = number
    local b = as_double.bytes
    -- set the sign bit, because zero can be negative
    return char(bor(b[7], sign == "-" and 0x80 or 0), b[6], b[5], b[4], b[3], b[2], b[1], b[0])
end

local function uuid(text)
    if #text ~= 36 or not text:find("^%x+%-%x+%-%x+%-%x+%-%x+$") then
        return nil
    end
    if text:byte(9) ~= 45 or text:byte(14) ~= 45 or text:byte(19) ~= 45 or text:byte(24) ~= 45 then
        return nil
    end
    return text
end

local CODECS = {
    string = as_is,
    bytes = as_is,
    int32 = int32,
    int64 = int64,
    float64 = float64,
    uuid = uuid,
    -- the document's own bytes
    json = as_is,
}

-- Avro: the text is JSON. Only backends parse JSON with escapes, or with spaces around it.

--- A zigzag varint, as Avro writes int and long. value: int64_t.
local function varint(value)
    local zigzag = bxor(lshift(value, 1), arshift(value, 63))
    local bytes = {}
    repeat
        local low = tonumber(band(zigzag, 0x7fLL))
        zigzag = rshift(zigzag, 7)
        bytes[#bytes + 1] = char(zigzag ~= 0 and low + 0x80 or low)
    until zigzag == 0
    return table.concat(bytes)
end

--- Whether the digits before the point are those of a JSON number.
local function is_json_whole(whole)
    return whole == "0" or whole:find("^[1-9]") ~= nil
end

local function avro_integer(parse)
    return function(text)
        local value = is_json_whole(text:sub(1, 1) == "-" and text:sub(2) or text) and parse(text)
        return value and varint(ffi.cast("int64_t", value)) or nil
    end
end

--- The double of a JSON number; nil for other text, and for numbers that are not finite.
local function parse_json_number(text)
    local sign, whole, fraction, number = parse_decimal(text)
    if not number or sign == "+" or not is_json_whole(whole) or fraction == "."
        or number == math.huge
    then
        return nil
    end
    -- backends parse `-0` as an integer, which has no negative zero
    return (sign == "-" and text ~= "-0") and -number or number
end

local function avro_double(text)
    local number = parse_json_number(text)
    if not number then
        return nil
    end
    as_double.number = number
    return ffi.string(as_double.bytes, 8)
end

local function avro_float(text)
    local number = parse_json_number(text)
    if not number then
        return nil
    end
    as_float.number = number
    -- the number is out of float's range
    if math.abs(as_float.number) == math.huge then
        return nil
    end
    return ffi.string(as_float.bytes, 4)
end

local function avro_string(text)
    local last = #text
    if last < 2 or text:byte(1) ~= 34 or text:byte(last) ~= 34 then
        return nil
    end
    local value = text:sub(2, -2)
    if value:find('[%z\1-\31"\\]') then
        return nil
    end
    return varint(ffi.cast("int64_t", #value)) .. value
end

local BOOLEANS = { ["true"] = "\1", ["false"] = "\0" }

-- by the schema's fingerprint (CRC-64-AVRO). Logical types have the fingerprint of their base type:
-- the text of a date or a timestamp is a JSON string, which the integer codecs reject. Bytes are
-- not among these: the same text may be a decimal number or base64url.
local AVRO_CODECS = {
    ["64f7d4a478fc429f"] = function(text) return BOOLEANS[text] end,
    ["8f5c393f1ad57572"] = avro_integer(parse_int32),
    ["b71df49344e154d0"] = avro_integer(parse_int64),
    ["90d7a83ecb027c4d"] = avro_float,
    ["7e95ab32c035758e"] = avro_double,
    ["c70345637248018f"] = avro_string,
}

--- The codec of a key format: a function from text to the record key's bytes or nil. Nil if keys of
-- the format are routed only as base64url.
-- schema: for format "avro", the fingerprint of the schema.
function _M.codec(format, schema)
    if format == "avro" then
        return AVRO_CODECS[schema]
    end
    return CODECS[format]
end

return _M
