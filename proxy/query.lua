--- What a request asks for: its view and the bytes of its record key.
-- The raw path is split first, then each part is percent-decoded once, as the backend does it:
-- `a%2Fb` is one key, `a%252Fb` is the key `a%2Fb`, and `+` is a plus. Pure.
--
-- A key is given only where every backend reads the same one. For all else there is none, and any
-- backend decides: it refuses, or finds the owner. tests/vectors/uris.jsonl pins both sides.
-- Sizes are checked before anything is decoded, and nothing here costs more than linear time:
-- a pattern such as "=+$" is tried from each place on, and would cost the square of the length.

local bit = require "bit"
local ffi = require "ffi"
local key_codec = require "proxy.key_codec"

local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local byte, find, sub = string.byte, string.find, string.sub

local _M = {}

local SLASH, PERCENT, EQUALS, E = byte("/%=e", 1, 4)

local BYTES = ffi.typeof("uint8_t[?]")

-- the value of a hexadecimal digit
local HEX = {}
for value = 0, 15 do
    local digit = ("%x"):format(value)
    HEX[byte(digit)], HEX[byte(digit:upper())] = value, value
end

--- The text with each escape decoded, and whether each per cent sign begins one. A loop over bytes,
-- which LuaJIT compiles: with thousands of escapes, gsub takes several times as long.
local function percent_decode(part)
    if not find(part, "%", 1, true) then
        return part, true
    end
    local length = #part
    local bytes, size, is_whole = BYTES(length), 0, true
    local i = 1
    while i <= length do
        local value = byte(part, i)
        if value == PERCENT then
            local high, low = HEX[byte(part, i + 1) or 0], HEX[byte(part, i + 2) or 0]
            if high and low then
                value = high * 16 + low
                i = i + 2
            else
                is_whole = false
            end
        end
        bytes[size] = value
        size = size + 1
        i = i + 1
    end
    return ffi.string(bytes, size), is_whole
end

local BASE64URL = {}
for i = 1, 64 do
    BASE64URL[byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", i)] = i - 1
end

--- The bytes of base64url text (RFC 4648, section 5), with or without padding; nil if it is not.
local function base64url_decode(text)
    local length = #text
    for _ = 1, 2 do
        if byte(text, length) == EQUALS then
            length = length - 1
        end
    end
    if length % 4 == 1 then
        return nil
    end
    local bytes, size = BYTES(length + 1), 0
    local held, bits = 0, 0
    for i = 1, length do
        local value = BASE64URL[byte(text, i)]
        if not value then
            return nil
        end
        held = bor(lshift(band(held, 0xff), 6), value)
        bits = bits + 6
        if bits >= 8 then
            bits = bits - 8
            bytes[size] = band(rshift(held, bits), 0xff)
            size = size + 1
        end
    end
    return ffi.string(bytes, size)
end

--- Where the part of `path` that begins at `from` ends, and where the next one begins, if any.
local function part_ends(path, from)
    local slash = find(path, "/", from, true)
    if slash then
        return slash - 1, slash + 1
    end
    return #path, nil
end

--- The part of a path's name that begins at `from`, decoded, and where the next one begins, if any;
-- nil for what is in no name: names have no slash, and at most `longest` bytes.
local function name_at(path, from, longest)
    local to, next_at = part_ends(path, from)
    if to - from >= 3 * longest then
        return nil
    end
    local name = percent_decode(sub(path, from, to))
    if find(name, "/", 1, true) then
        return nil
    end
    return name, next_at
end

--- The view, and where its key begins in the path; nil for a path that holds no key.
local function view_of(path, views)
    local longest = views.longest_name
    local first, next_at = name_at(path, 2, longest)
    if not next_at then
        return nil
    end
    if first == "views" then
        local name, keys_at = name_at(path, next_at, longest)
        local view = keys_at and views.by_name[name]
        if not view then
            return nil
        end
        local keys, key_at = name_at(path, keys_at, longest)
        if keys ~= "keys" or not key_at then
            return nil
        end
        return view, key_at
    end
    -- short paths have one part nearly always; the longest that fits wins
    local prefix = "/" .. first
    local view, key_at = views.by_path[prefix], next_at
    for _ = 2, views.path_depth do
        local part
        part, next_at = name_at(path, next_at, longest)
        if not next_at then
            break
        end
        prefix = prefix .. "/" .. part
        if views.by_path[prefix] then
            view, key_at = views.by_path[prefix], next_at
        end
    end
    return view, key_at
end

-- "encoding" with each letter escaped, and an equals sign; its longest value likewise
local LONGEST_NAME, LONGEST_VALUE = 3 * #"encoding" + 1, 3 * #"base64url"

--- How the key is written: "text" or "base64url"; nil where the arguments do not say it in one way:
-- backends refuse them.
local function encoding_of(arguments)
    local encoding
    local from, size = 1, #arguments
    while from <= size do
        local to = (find(arguments, "&", from, true) or size + 1) - 1
        local first = byte(arguments, from)
        if (first == E or first == PERCENT) and to - from + 1 >= #"encoding" then
            local start = sub(arguments, from, math.min(to, from + LONGEST_NAME - 1))
            local equals = find(start, "=", 1, true)
            local name = percent_decode(equals and sub(start, 1, equals - 1) or start)
            if name == "encoding" then
                local value_at = from + (equals or #start)
                if encoding or not equals or to - value_at >= LONGEST_VALUE then
                    return nil
                end
                encoding = percent_decode(sub(arguments, value_at, to))
                if encoding ~= "text" and encoding ~= "base64url" then
                    return nil
                end
            end
        end
        from = to + 2
    end
    return encoding or "text"
end

--- The key that a part of a path names; nil where that is not known here.
local function key_of(view, path, from, to, arguments, longest)
    local encoding = encoding_of(arguments)
    -- bytes as base64url, two of padding
    local most = encoding == "base64url" and math.ceil(longest * 4 / 3) + 2 or longest
    if not encoding or to - from >= 3 * most then
        return nil
    end
    local text, is_whole = percent_decode(sub(path, from, to))
    if not is_whole or #text > most then
        return nil
    end
    if encoding == "base64url" then
        local key = base64url_decode(text)
        return key and #key <= longest and key or nil
    end
    return text ~= "" and key_codec.encode(view.key, text) or nil
end

--- Whether a raw URI is of printable ASCII without `#`: all else is not read everywhere alike.
local function is_readable(uri)
    return byte(uri, 1) == SLASH and not find(uri, '[^!-"$-~]')
end

--- Whether the raw URI is a path alone, of bytes that all backends read alike.
function _M.is_plain(uri)
    return is_readable(uri) and not find(uri, "?", 1, true)
end

--- What `$request_uri` asks for.
-- views: `by_name` and `by_path` (tables of views), `path_depth` (parts of the longest short path),
-- `longest_name` (bytes of the longest part of one), `max_key_bytes`.
-- Gives view, key bytes, and whether it is a point read (nothing follows the key). View and key are
-- nil for what is no key's; the key alone is nil where it is not known to the proxy.
function _M.parse(uri, views)
    if not is_readable(uri) then
        return nil, nil, false
    end
    local path, arguments = uri, ""
    local question = find(uri, "?", 1, true)
    if question then
        path, arguments = sub(uri, 1, question - 1), sub(uri, question + 1)
    end
    local view, key_at = view_of(path, views)
    if not view then
        return nil, nil, false
    end
    local to, rest_at = part_ends(path, key_at)
    local key = key_of(view, path, key_at, to, arguments, views.max_key_bytes)
    return view, key, rest_at == nil
end

return _M
