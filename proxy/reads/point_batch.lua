--- Framing of coalesced point reads; backend/wire/point_batch.py describes it. Pure.

local ffi = require "ffi"

local cast, concat = ffi.cast, table.concat
local find, gsub, sub = string.find, string.gsub, string.sub
-- the framing is little-endian, like every machine on which nginx runs LuaJIT
local NUMBERS = ffi.typeof("const uint32_t *")
local BYTES = ffi.typeof("const uint8_t *")

local MAGIC = "QTR2"
local FIXED_BYTES = 16
-- instead of a length: the read was not answered and must be sent by itself
local ALONE = 0xFFFFFFFF
-- instead of a length: the key is missing
local ABSENT = 0xFFFFFFFE
-- bytes of an entry before its JSON: a time, and the offset of its record
local ENTRY_HEAD_BYTES = 16
-- doubles are exact up to 2^53: 2^21 in the upper half
local MAX_EXACT_HIGH = 2097152

local _M = {}

--- The beginning of the first line of a group of keys of this partition: what is the same in all
-- requests.
function _M.keys_line(view, partition)
    return "partition " .. view.name .. " " .. view.key_format .. " " .. view.partitioner_name
        .. " " .. view.partitions .. " " .. partition .. " "
end

-- before each key
local BEFORE_KEY, BEFORE_KEYS = "\1", "\n\n\1"

--- The bytes of a key in a request.
function _M.key_bytes(key)
    return #BEFORE_KEY + #key
end

--- Bytes that a read adds to a request at most, besides those of its key: the numbers of its token
-- and of the bytes of its key.
_M.READ_BYTES = #",128" + #",131072"

--- Bytes that a group adds to a request, besides its reads.
function _M.group_bytes(line)
    return #line + #"512 " + #"\n"
end

--- Bytes that a token adds to a request: a digest in hex, with what separates it from others.
_M.TOKEN_BYTES = 64 + #"tokens "

--- Encodes groups of reads, and the digests of their tokens. A group is {line, count, keys,
-- lengths, tokens, are_tokens_mixed}: `lengths` are the bytes of its keys in the request, and
-- `tokens` the numbers of the tokens of its reads (0: none); they are mixed if they differ.
-- length: the bytes of each key; nil if they differ. Sets `first` of each group: the number of keys
-- that are answered before those of the group. Returns the request, and the number of keys.
function _M.encode(digests, groups, length)
    local parts, size, count = {}, 0, 0
    if #digests > 0 then
        parts[1], parts[2], parts[3] = "tokens ", concat(digests, ","), "\n"
        size = 3
    end
    local at = size + 2 -- of the lengths
    parts[at - 1], parts[at], size = "lengths ", length or "", at
    local keys, lengths = {}, {}
    for i = 1, #groups do
        local group = groups[i]
        group.first, count = count, count + group.count
        parts[size + 1], parts[size + 2], parts[size + 3] = "\n", group.line, group.count
        parts[size + 4] = " "
        parts[size + 5] = group.are_tokens_mixed and concat(group.tokens, ",") or group.tokens[1]
        size = size + 5
        keys[i] = concat(group.keys, BEFORE_KEY)
        if not length then
            lengths[i] = concat(group.lengths, ",")
        end
    end
    if not length then
        parts[at] = concat(lengths, ",")
    end
    parts[size + 1], parts[size + 2] = BEFORE_KEYS, concat(keys, BEFORE_KEY)
    return concat(parts), count
end

--- The names and values of lines, and the value of served-by.
local function parse_lines(lines)
    local names, values, count = {}, {}, 0
    local served_by
    local from = 1
    while true do
        -- `find` per line, because a pattern would search for the colon from every position
        local feed = find(lines, "\n", from, true)
        if not feed then
            break
        end
        local colon = find(lines, ": ", from, true)
        if colon and colon > from and colon < feed then
            local name, value = sub(lines, from, colon - 1), sub(lines, colon + 2, feed - 1)
            count = count + 1
            names[count], values[count] = name, value
            served_by = name == "served-by" and value or served_by
        end
        from = feed + 1
    end
    return names, values, served_by
end

--- Returns {lines, content_type, served_by}. lines: the header lines as a response has them, each
-- after "\r\n", without content-type. The other two are the values of content-type and served-by.
local function parse_block(lines)
    local names, values, served_by = parse_lines(lines)
    local parts, content_type = {}, nil
    for i = 1, #names do
        if names[i] == "content-type" then
            content_type = values[i]
        else
            parts[#parts + 1] = "\r\n" .. names[i] .. ": " .. values[i]
        end
    end
    return { lines = concat(parts), content_type = content_type, served_by = served_by }
end

--- The state lines of a group, in the form of `parse_block`; nil if they are not in their form.
local function state_lines(lines)
    if lines == "" then
        return lines
    elseif sub(lines, -1) ~= "\n" then
        return nil
    end
    return "\r\n" .. gsub(sub(lines, 1, -2), "\n", "\r\n")
end

-- by their text: they rarely change, and every instance has a few for each partition
local MAX_FIXED = 10000
local fixed_blocks, fixed_count = {}, 0

--- Parses the fixed lines of a group. Returns {lines, served_by, found}: `lines` and `served_by`
-- are for all answers, and `found` is {lines, content_type} for found keys. The lines of found keys
-- begin with those of all answers, and end with the ETag up to the offset. Returns nil if the text
-- is invalid.
local function parse_fixed(text)
    local known = fixed_blocks[text]
    if known then
        return known
    end
    local empty = find(text, "\n\n", 1, true)
    if not empty then
        return nil
    end
    local rest = sub(text, empty + 2)
    local etag_at = find(rest, "etag: ", 1, true)
    if not etag_at then
        return nil
    end
    local fixed = parse_block(sub(text, 1, empty))
    fixed.found = parse_block(sub(rest, 1, etag_at - 1))
    fixed.found.lines = fixed.lines .. fixed.found.lines .. "\r\netag: "
        .. sub(rest, etag_at + #"etag: ")
    if fixed_count >= MAX_FIXED then
        fixed_blocks, fixed_count = {}, 0
    end
    fixed_blocks[text], fixed_count = fixed, fixed_count + 1
    return fixed
end

--- The miss of a group: {lines, content_type, body}; nil if it is not in this form.
local function parse_miss(text)
    local empty = find(text, "\n\n", 1, true)
    if not empty then
        return nil
    end
    local miss = parse_block(sub(text, 1, empty))
    miss.body = sub(text, empty + 2)
    return miss
end

--- Returns how many bytes must follow the numbers; nil if a number is not valid.
local function sum(numbers, groups, keys)
    local total, at = numbers[3], 4
    for i = at, at + 3 * groups - 1 do
        total = total + numbers[i]
    end
    at = at + 3 * groups
    for i = at, at + keys - 1 do
        local length = numbers[i]
        if length < ABSENT then
            if length < ENTRY_HEAD_BYTES then
                return nil
            end
            total = total + length
        end
    end
    return total
end

local function decode_groups(answer, numbers, groups, at)
    local number = 4
    for i = 1, #groups do
        local group = groups[i]
        local fixed, state, miss = numbers[number], numbers[number + 1], numbers[number + 2]
        number = number + 3
        local lines = state_lines(sub(answer, at + fixed + 1, at + fixed + state))
        if fixed > 0 and lines then
            group.fixed, group.lines = parse_fixed(sub(answer, at + 1, at + fixed)), lines
            if miss > 0 then
                group.miss = parse_miss(sub(answer, at + fixed + state + 1,
                                            at + fixed + state + miss))
            end
        end
        at = at + fixed + state + miss
    end
    return at
end

--- Decodes the answers to a request that `encode` has made of `groups`, into `batch`: `epoch`;
-- `answer`, which has the entries; `lengths` and `positions` of the entries of the keys (the length
-- is ABSENT or ALONE if there is none). Sets `fixed`, `lines` and `miss` of each group.
-- Returns true; or nil and an error, and then `batch` is unchanged.
function _M.decode(answer, groups, keys, batch)
    local size = #answer
    if size < FIXED_BYTES or sub(answer, 1, 4) ~= MAGIC then
        return nil, "not a batch of answers"
    end
    local numbers = cast(NUMBERS, answer)
    local count, heads = numbers[1], numbers[2]
    local at = FIXED_BYTES + 4 * (3 * count + keys)
    if count ~= #groups or heads > 0 or at > size then
        return nil, "wrong number of answers"
    end
    local total = sum(numbers, count, keys)
    if not total or at + total ~= size then
        return nil, "wrong length"
    end
    local epoch_size = numbers[3]
    batch.epoch = sub(answer, at + 1, at + epoch_size)
    batch.answer = answer
    at = decode_groups(answer, numbers, groups, at + epoch_size)
    local first = 3 + 3 * count
    local lengths, positions = batch.lengths, batch.positions
    for i = 1, keys do
        local length = numbers[first + i]
        lengths[i], positions[i] = length, at
        if length < ABSENT then
            at = at + length
        end
    end
    return true
end

--- The status of the group's key of this number: 200, 404, or nil if it must be sent by itself.
function _M.status(batch, group, number)
    local length = batch.lengths[group.first + number]
    if not length or length == ALONE or not group.fixed then
        return nil
    end
    if length == ABSENT then
        return group.miss and 404 or nil
    end
    return 200
end

--- The non-negative, big-endian number in the 8 bytes at `bytes`, as text.
local function number_at(bytes)
    local high = ((bytes[0] * 256 + bytes[1]) * 256 + bytes[2]) * 256 + bytes[3]
    local low = ((bytes[4] * 256 + bytes[5]) * 256 + bytes[6]) * 256 + bytes[7]
    if high < MAX_EXACT_HIGH then
        return ("%d"):format(high * 4294967296 + low)
    end
    -- such as the offset of an entry of a push: see model/records.py
    return tostring(high * 4294967296ULL + low):sub(1, -4)
end

--- The value of a found key, or its document, as JSON: see backend/wire/point_batch.py; and the
-- offset and the timestamp of its record, as text. Nil for the timestamp if the record has none.
function _M.value(batch, group, number)
    local index = group.first + number
    local at, length = batch.positions[index], batch.lengths[index]
    local bytes = cast(BYTES, batch.answer) + at
    -- in a negative number, the first bit is set
    local timestamp = bytes[0] < 128 and number_at(bytes) or nil
    local value = sub(batch.answer, at + ENTRY_HEAD_BYTES + 1, at + length)
    return value, number_at(bytes + 8), timestamp
end

return _M
