--- Parses requests: the view, the bytes of the record key, and whether a request is a plain read,
-- which may be coalesced. The raw path is split first, then each part is percent-decoded once, as
-- in the backends: `a%2Fb` is one key, `a%252Fb` is the key `a%2Fb`, and `+` is a plus. Pure.
--
-- `parse` returns a key only if every backend would parse the same one. Otherwise the request goes
-- to any backend, which rejects or forwards it. tests/vectors/uris.jsonl pins both sides.
-- Sizes are checked before text is decoded, and every function takes linear time. A pattern such as
-- "=+$" would take quadratic time, because it starts at every position.

local bit = require "bit"
local ffi = require "ffi"

local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local byte, find, match, sub = string.byte, string.find, string.match, string.sub

local _M = {}

local SLASH, PERCENT, EQUALS, E = byte("/%=e", 1, 4)

local BYTES = ffi.typeof("uint8_t[?]")

-- values of hexadecimal digits
local HEX = {}
for value = 0, 15 do
    local digit = ("%x"):format(value)
    HEX[byte(digit)], HEX[byte(digit:upper())] = value, value
end

--- Returns the text with its escapes decoded, and whether every per cent sign begins an escape.
-- This loops over bytes because LuaJIT compiles it: gsub takes several times as long.
local function percent_decode(part)
    if not find(part, "%", 1, true) then
        return part, true
    end
    local length = #part
    local bytes, size, is_valid = BYTES(length), 0, true
    local i = 1
    while i <= length do
        local value = byte(part, i)
        if value == PERCENT then
            local high, low = HEX[byte(part, i + 1) or 0], HEX[byte(part, i + 2) or 0]
            if high and low then
                value = high * 16 + low
                i = i + 2
            else
                is_valid = false
            end
        end
        bytes[size] = value
        size = size + 1
        i = i + 1
    end
    return ffi.string(bytes, size), is_valid
end

local BASE64URL = {}
for i = 1, 64 do
    BASE64URL[byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", i)] = i - 1
end

--- The bytes of base64url text (RFC 4648, section 5), with or without padding; nil if invalid.
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
    local buffer, bits = 0, 0
    for i = 1, length do
        local value = BASE64URL[byte(text, i)]
        if not value then
            return nil
        end
        buffer = bor(lshift(band(buffer, 0xff), 6), value)
        bits = bits + 6
        if bits >= 8 then
            bits = bits - 8
            bytes[size] = band(rshift(buffer, bits), 0xff)
            size = size + 1
        end
    end
    return ffi.string(bytes, size)
end

--- Returns the index of the last byte of the path part that begins at `from`, and the index of the
-- next part; nil if there is none.
local function part_end(path, from)
    local slash = find(path, "/", from, true)
    if slash then
        return slash - 1, slash + 1
    end
    return #path, nil
end

--- Returns the decoded path part that begins at `from`, and the index of the next part, if any. Nil
-- if the part cannot be a name: names have no slash, and at most `max_bytes` bytes.
local function name_at(path, from, max_bytes)
    local to, next_at = part_end(path, from)
    if to - from >= 3 * max_bytes then
        return nil
    end
    local name = percent_decode(sub(path, from, to))
    if find(name, "/", 1, true) then
        return nil
    end
    return name, next_at
end

--- Returns the view and the index of the key in the path; nil if the path has no key.
local function find_view(path, views)
    local max_bytes = views.longest_name
    local first, next_at = name_at(path, 2, max_bytes)
    if not next_at then
        return nil
    end
    if first == "views" then
        local name, keys_at = name_at(path, next_at, max_bytes)
        local view = keys_at and views.by_name[name]
        if not view then
            return nil
        end
        local keys, key_at = name_at(path, keys_at, max_bytes)
        if keys ~= "keys" or not key_at then
            return nil
        end
        return view, key_at
    end
    -- short paths usually have one part; the longest match wins
    local prefix = "/" .. first
    local view, key_at = views.by_path[prefix], next_at
    for _ = 2, views.path_depth do
        local part
        part, next_at = name_at(path, next_at, max_bytes)
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

-- the sizes of "encoding=" and of its longest value if each letter is escaped
local MAX_NAME_BYTES, MAX_VALUE_BYTES = 3 * #"encoding" + 1, 3 * #"base64url"

--- The encoding of the key: "text" or "base64url". Nil if the arguments are ambiguous or invalid:
-- backends reject them.
local function parse_encoding(arguments)
    local encoding
    local from, size = 1, #arguments
    while from <= size do
        local to = (find(arguments, "&", from, true) or size + 1) - 1
        local first = byte(arguments, from)
        if (first == E or first == PERCENT) and to - from + 1 >= #"encoding" then
            local start = sub(arguments, from, math.min(to, from + MAX_NAME_BYTES - 1))
            local equals = find(start, "=", 1, true)
            local name = percent_decode(equals and sub(start, 1, equals - 1) or start)
            if name == "encoding" then
                local value_at = from + (equals or #start)
                if encoding or not equals or to - value_at >= MAX_VALUE_BYTES then
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

--- The record key of a path part, at most `max_bytes` bytes; nil if the proxy cannot compute it.
local function parse_key(view, path, from, to, arguments, max_bytes)
    local encoding = parse_encoding(arguments)
    -- base64url needs four characters for three bytes, and may have two of padding
    local max_text = encoding == "base64url" and math.ceil(max_bytes * 4 / 3) + 2 or max_bytes
    if not encoding or to - from >= 3 * max_text then
        return nil
    end
    local text, is_valid = percent_decode(sub(path, from, to))
    if not is_valid or #text > max_text then
        return nil
    end
    if encoding == "base64url" then
        local key = base64url_decode(text)
        return key and #key <= max_bytes and key or nil
    end
    return text ~= "" and view.encode_key and view.encode_key(text) or nil
end

--- Whether a raw URI is printable ASCII without `#`: HTTP parsers treat other URIs differently.
local function is_unambiguous(uri)
    return byte(uri, 1) == SLASH and not find(uri, '[^!-"$-~]')
end

--- Parses `$request_uri`.
-- views: `by_name` and `by_path` (tables of views), `path_depth` (parts of the longest short path),
-- `longest_name` (bytes of the longest part of a path), `max_key_bytes`.
-- Returns the view, the key bytes, and whether it is a point read (nothing follows the key). View
-- and key are nil if the path has no key; the key alone is nil if the proxy cannot compute it.
function _M.parse(uri, views)
    if not is_unambiguous(uri) then
        return nil, nil, false
    end
    local path, arguments = uri, ""
    local question = find(uri, "?", 1, true)
    if question then
        path, arguments = sub(uri, 1, question - 1), sub(uri, question + 1)
    end
    local view, key_at = find_view(path, views)
    if not view then
        return nil, nil, false
    end
    local to, rest_at = part_end(path, key_at)
    local key = parse_key(view, path, key_at, to, arguments, views.max_key_bytes)
    return view, key, rest_at == nil
end

-- above any plain read: a key has 8,192 bytes at most, by default
local MAX_PLAIN_BYTES = 16384

-- point_reads writes text as it is
local ESCAPED_IN_JSON = '[%z\1-\31"\\]'

--- Parses the raw URI of a plain read: it has no arguments, and only bytes that a URL may
-- have (RFC 3986) without `#`.
-- Returns the view and the key bytes. The key is nil if the read is not plain, or if the key is
-- text that JSON escapes.
function _M.plain_key(uri, views)
    -- the pattern would take milliseconds
    if #uri > MAX_PLAIN_BYTES then
        return nil
    end
    -- without `%` and `?`, and split at the last slash
    local before, text = match(uri, "^(/[!$&->@-[%]^-~]*/)([!$&-.0->@-[%]^-~]+)$")
    local view = before and views.by_prefix[before]
    if view then
        if #text > views.max_key_bytes then
            return nil
        end
        if view.has_text_keys then
            return view, text
        end
        return view, view.encode_key and view.encode_key(text)
    end
    -- no path has a NUL byte
    if find(uri, "[^!$-[%]^-~]") or find(uri, "?", 1, true) or find(uri, "%00", 1, true) then
        return nil
    end
    local is_point, key
    view, key, is_point = _M.parse(uri, views)
    if not is_point or not key or view.has_text_keys and find(key, ESCAPED_IN_JSON) then
        return nil
    end
    return view, key
end

--- Whether a part of the raw path is `..`, escaped or not. nginx resolves it, also in a key, before
-- it looks for a location.
function _M.climbs(uri)
    local path = percent_decode(match(uri, "^[^?]*"))
    return find(path .. "/", "/../", 1, true) ~= nil
end

--- The view of a request without a key: /views/{view}/…, or /api/v1/{kind}/{view}… of KIQR's
-- dialect; nil for other URIs. For quotas: every request of a view counts.
function _M.view_of(uri, views)
    local path = uri
    local question = find(uri, "?", 1, true)
    if question then
        path = sub(uri, 1, question - 1)
    end
    local max_bytes = views.longest_name
    local first, next_at = name_at(path, 2, max_bytes)
    if first == "api" and next_at then
        first, next_at = name_at(path, next_at, max_bytes)
        if first ~= "v1" or not next_at then
            return nil
        end
        first, next_at = name_at(path, next_at, max_bytes)
        local name = first and next_at and name_at(path, next_at, max_bytes)
        return name and views.by_name[name] or nil
    end
    if first ~= "views" or not next_at then
        return nil
    end
    local name, rest_at = name_at(path, next_at, max_bytes)
    return rest_at and views.by_name[name] or nil
end

-- Backends reject some requests because of their headers: too many or too long, with control
-- characters, or with a repeated header that is allowed once. Of the headers of a coalesced read,
-- only its token reaches the backend. So a read with such headers is sent by itself: its answer
-- must not depend on other requests.

--- A read with more headers is not plain. Backends accept 100.
_M.MAX_PLAIN_HEADERS = 64

-- bytes of a header; backends accept 8,190
local MAX_PLAIN_HEADER_BYTES = 8000

-- values of Accept that request JSON
local ACCEPTS_JSON = { [""] = true, ["*/*"] = true, ["application/json"] = true }

-- headers that a plain read does not have
local NOT_PLAIN = {
    -- they change the answer
    ["if-match"] = true, ["if-none-match"] = true, ["if-modified-since"] = true,
    ["if-unmodified-since"] = true, ["range"] = true, ["if-range"] = true,
    -- it has a body
    ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true,
    -- backends decide about requests of pages of other sites
    ["origin"] = true,
    -- backends reject requests in which these contradict each other
    ["x-forwarded-ssl"] = true, ["x-forwarded-protocol"] = true,
}

-- Tokens by the value of their header: most requests have one of a few, and a table is faster than
-- a pattern by far.
local MAX_TOKENS_BYTES = 4 * 1024 * 1024
local tokens, tokens_bytes = {}, 0

--- The token of an `Authorization` (RFC 6750, section 2.1); nil if it is anything else.
local function bearer_token(value)
    local token = tokens[value]
    if token then
        return token
    end
    token = match(value, "^[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)$")
    if token then
        if tokens_bytes > MAX_TOKENS_BYTES then
            tokens, tokens_bytes = {}, 0
        end
        tokens[value], tokens_bytes = token, tokens_bytes + #value + #token
    end
    return token
end

--- The token of a read with plain headers: they do not change any backend's answer, except for the
-- token. "" if it has no token; nil if its headers are not plain.
-- headers: values by name in lower case, as ngx.req.get_headers returns them.
function _M.plain_token(headers)
    local token = ""
    for name, value in pairs(headers) do
        -- a table: the header is repeated
        if type(value) ~= "string" or #name + #value > MAX_PLAIN_HEADER_BYTES or NOT_PLAIN[name]
        then
            return nil
        end
        if name == "authorization" then
            token = bearer_token(value)
            if not token then
                return nil
            end
        elseif find(value, "[^ -~]") or name == "accept" and not ACCEPTS_JSON[value]
            or name == "sec-fetch-site" and find(value, "cross-site", 1, true)
        then
            return nil
        end
    end
    return token
end

return _M
