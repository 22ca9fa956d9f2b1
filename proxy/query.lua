--- What a request asks for: its view and the bytes of its record key.
-- The raw path is split first, then each part is percent-decoded once, as the backend does it:
-- `a%2Fb` is one key, `a%252Fb` is the key `a%2Fb`, and `+` is a plus. Pure.

local bit = require "bit"
local key_codec = require "proxy.key_codec"

local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local byte, char, find, sub = string.byte, string.char, string.find, string.sub

local _M = {}

local function unescape(hex)
    return char(tonumber(hex, 16))
end

local function percent_decode(part)
    if not find(part, "%", 1, true) then
        return part
    end
    return (part:gsub("%%(%x%x)", unescape))
end

local BASE64URL = {}
for i = 1, 64 do
    BASE64URL[byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", i)] = i - 1
end

--- The bytes of base64url text (RFC 4648, section 5), with or without padding; nil if it is not.
local function base64url_decode(text)
    text = text:gsub("=+$", "")
    if #text % 4 == 1 then
        return nil
    end
    local bytes, held, bits = {}, 0, 0
    for i = 1, #text do
        local value = BASE64URL[byte(text, i)]
        if not value then
            return nil
        end
        held = bor(lshift(band(held, 0xff), 6), value)
        bits = bits + 6
        if bits >= 8 then
            bits = bits - 8
            bytes[#bytes + 1] = char(band(rshift(held, bits), 0xff))
        end
    end
    return table.concat(bytes)
end

--- The part of `path` that begins at `from`, decoded, and where the next one begins, if any.
local function part_at(path, from)
    local slash = find(path, "/", from, true)
    if slash then
        return percent_decode(sub(path, from, slash - 1)), slash + 1
    end
    return percent_decode(sub(path, from)), nil
end

--- The view, and where its key begins in the path; nil for a path that holds no key.
local function view_of(path, views)
    local first, next_at = part_at(path, 2)
    if not next_at then
        return nil
    end
    if first == "views" then
        local name, keys_at = part_at(path, next_at)
        local view = keys_at and views.by_name[name]
        if not view then
            return nil
        end
        local keys, key_at = part_at(path, keys_at)
        if keys ~= "keys" or not key_at then
            return nil
        end
        return view, key_at
    end
    -- short paths have one part nearly always; the longest that fits wins
    local prefix = "/" .. first
    local view, key_at = views.by_path[prefix], next_at
    for _ = 2, views.path_depth do
        if not next_at then
            break
        end
        local part
        part, next_at = part_at(path, next_at)
        prefix = prefix .. "/" .. part
        if next_at and views.by_path[prefix] then
            view, key_at = views.by_path[prefix], next_at
        end
    end
    return view, key_at
end

--- Splits `$request_uri` into the raw path and the query string ("" if there is none).
function _M.split(request_uri)
    local question = find(request_uri, "?", 1, true)
    if question then
        return sub(request_uri, 1, question - 1), sub(request_uri, question + 1)
    end
    return request_uri, ""
end

--- What a path asks for.
-- views: `by_name` and `by_path` (tables of views), `path_depth` (parts of the longest short path).
-- Gives view, key bytes, and whether it is a point read (nothing follows the key). View and key are
-- nil for what is no key's; the key alone is nil where it is not known to the proxy.
function _M.parse(path, arguments, views)
    local view, key_at = view_of(path, views)
    if not view then
        return nil, nil, false
    end
    local text, rest = part_at(path, key_at)
    local key
    if arguments ~= "" and find("&" .. arguments .. "&", "&encoding=base64url&", 1, true) then
        key = base64url_decode(text)
    elseif text ~= "" then
        key = key_codec.encode(view.key, text)
    end
    return view, key, rest == nil
end

return _M
