--- From a key's text, as it stands in a URL after percent-decoding, to the bytes of the record key.
-- As Kafka's own serializers write them. A codec gives nil for text that is no such key: the proxy
-- then routes to any backend, whose business it is to say what is wrong. Pure.

local bit = require "bit"

local band, rshift = bit.band, bit.rshift
local char = string.char

local _M = {}

-- magnitudes, as text without leading zeros: text of equal length compares as the numbers do
local INT64_MAX, INT64_MIN = "9223372036854775807", "9223372036854775808"

local function as_is(text)
    return text
end

-- what the backends read as a number has no more digits (model/formats/codecs.py)
local MOST_DIGITS = 20

--- "" or "-", and the digits without leading zeros; nil if it is not a whole number.
local function whole_number(text)
    -- the size first: patterns may cost the square of it
    if #text > MOST_DIGITS + 1 then
        return nil
    end
    local sign, digits = text:match("^(%-?)(%d+)$")
    if not sign or #digits > MOST_DIGITS then
        return nil
    end
    return sign, digits:match("^0*(%d+)$")
end

local function int32(text)
    local sign, digits = whole_number(text)
    if not sign or #digits > 10 then
        return nil
    end
    local value = tonumber(sign .. digits)
    if value < -2147483648 or value > 2147483647 then
        return nil
    end
    return char(band(rshift(value, 24), 0xff), band(rshift(value, 16), 0xff),
                band(rshift(value, 8), 0xff), band(value, 0xff))
end

local function int64(text)
    local sign, digits = whole_number(text)
    if not sign then
        return nil
    end
    local greatest = sign == "-" and INT64_MIN or INT64_MAX
    if #digits > 19 or (#digits == 19 and digits > greatest) then
        return nil
    end
    -- doubles end at 2^53: LuaJIT's boxed 64-bit integers, which wrap as they should at the lowest
    local value = 0LL
    for i = 1, #digits do
        value = value * 10LL + (digits:byte(i) - 48)
    end
    if sign == "-" then
        value = -value
    end
    local bytes = {}
    for i = 8, 1, -1 do
        bytes[i] = char(tonumber(band(value, 0xffLL)))
        value = rshift(value, 8)
    end
    return table.concat(bytes)
end

local function uuid(text)
    if #text ~= 36 or not text:find("^%x+%-%x+%-%x+%-%x+%-%x+$") then
        return nil
    end
    if text:byte(9) ~= 45 or text:byte(14) ~= 45 or text:byte(19) ~= 45 or text:byte(24) ~= 45 then
        return nil
    end
    return text:lower()
end

local CODECS = {
    string = as_is,
    bytes = as_is,
    int32 = int32,
    int64 = int64,
    uuid = uuid,
}

--- The record key's bytes, or nil: text that is no such key, or a type that is not routed.
function _M.encode(key_type, text)
    local codec = CODECS[key_type]
    return codec and codec(text)
end

return _M
