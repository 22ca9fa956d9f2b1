--- Framing of coalesced point reads; backend/wire/point_batch.py describes it. Pure.

local ffi = require "ffi"

local cast, concat = ffi.cast, table.concat
local find, gsub, sub = string.find, string.gsub, string.sub
-- the framing is little-endian, like every machine on which nginx runs LuaJIT
local NUMBERS = ffi.typeof("const uint32_t *")
local BYTES = ffi.typeof("const uint8_t *")

local MAGIC = "QTR2"
local FIXED_BYTES = 16
-- instead of a head or a length: the read was not answered and must be sent by itself
local ALONE = 0xFFFFFFFF
-- instead of a length: the key is missing
local ABSENT = 0xFFFFFFFE
-- bytes of an entry before its value: a time, and the offset of its record
local ENTRY_HEAD_BYTES = 16
-- doubles are exact up to 2^53: 2^21 in the upper half
local MAX_EXACT_HIGH = 2097152

local _M = {}

--- The first line of a group of paths, without the number of its reads and the numbers of their
-- tokens.
_M.PATHS = "paths "

--- The same for reads of keys of this partition.
function _M.keys_line(view, partition)
    return "keys " .. view.name .. " " .. view.partitioner_name .. " " .. view.partitions .. " "
        .. partition .. " "
end

-- before each text: 0x01 begins the stored key of an entry
local BEFORE_KEY, BEFORE_PATH = "\n\1", "\n"

--- Bytes that a read of this text adds to a request, at most.
function _M.text_bytes(text)
    return #text + #BEFORE_KEY + #",128"
end

--- Bytes that the first line of a group adds to a request.
function _M.group_bytes(line)
    return #line + 5
end

--- Bytes that a token adds to a request: a digest in hex, with what separates it from others.
_M.TOKEN_BYTES = 64 + #"tokens "

--- Encodes groups of reads, and the digests of their tokens. A group is {line, is_keys, count,
-- texts, tokens, is_mixed}: `tokens` are the numbers of the tokens of its reads (0: none), and
-- `is_mixed` is whether they differ. Sets `first` of each group: the number of keys, or of paths,
-- that are answered before those of the group. Returns the request, the list of groups of keys, the
-- number of keys and that of paths.
function _M.encode(digests, groups)
    local parts, size = {}, 0
    local of_keys, keys, paths = {}, 0, 0
    if #digests > 0 then
        parts[1], parts[2], parts[3] = "tokens ", concat(digests, ","), "\n"
        size = 3
    end
    for i = 1, #groups do
        local group = groups[i]
        local before = BEFORE_PATH
        if group.is_keys then
            before = BEFORE_KEY
            group.first, keys = keys, keys + group.count
            of_keys[#of_keys + 1] = group
        else
            group.first, paths = paths, paths + group.count
        end
        parts[size + 1], parts[size + 2], parts[size + 3] = group.line, group.count, " "
        parts[size + 4] = group.is_mixed and concat(group.tokens, ",") or group.tokens[1]
        parts[size + 5], parts[size + 6] = before, concat(group.texts, before)
        parts[size + 7] = "\n"
        size = size + 7
    end
    -- the last line is not ended
    parts[size] = nil
    return concat(parts), of_keys, keys, paths
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

local TIMESTAMP = "\nrecord-timestamp: "

--- {status, names, values, served_by, timestamp}: the timestamp is that of the record, or nil.
-- Heads of a store partition differ only in the timestamp, which is their last line. known: what
-- was parsed before, by the other lines.
local function parse_head(status, lines, known)
    local at = find(lines, TIMESTAMP, 1, true)
    local timestamp = at and sub(lines, at + #TIMESTAMP, -2)
    local others = at and sub(lines, 1, at) or lines
    local parsed = known[others]
    if not parsed then
        local names, values, served_by = parse_lines(others)
        parsed = { names = names, values = values, served_by = served_by }
        known[others] = parsed
    end
    return {
        status = status, names = parsed.names, values = parsed.values,
        served_by = parsed.served_by, timestamp = timestamp,
    }
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
local function sum(numbers, groups, keys, heads, paths)
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
    at = at + keys
    for i = at + 1, at + 2 * heads - 1, 2 do
        total = total + numbers[i]
    end
    at = at + 2 * heads
    for i = at, at + 3 * paths - 1, 3 do
        local head = numbers[i]
        if head ~= ALONE and head >= heads then
            return nil
        end
        total = total + numbers[i + 1] + numbers[i + 2]
    end
    return total
end

local function decode_groups(answer, numbers, of_keys, at)
    local number = 4
    for i = 1, #of_keys do
        local group = of_keys[i]
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

--- Decodes the answers to a request that `encode` has made, into `batch`: `epoch`; `answer`, which
-- has the entries; `lengths` and `positions` of the entries of the keys (the length is ABSENT or
-- ALONE if there is none); `heads`, `etags` and `bodies` of the paths. A head is {status, names,
-- values, served_by, timestamp}, or false for a read that must be sent by itself. Sets `fixed`,
-- `lines` and `miss` of each group of keys.
-- Returns true; or nil and an error, and then `batch` is unchanged.
function _M.decode(answer, of_keys, keys, paths, batch)
    local size = #answer
    if size < FIXED_BYTES or sub(answer, 1, 4) ~= MAGIC then
        return nil, "not a batch of answers"
    end
    local numbers = cast(NUMBERS, answer)
    local groups, heads = numbers[1], numbers[2]
    local at = FIXED_BYTES + 4 * (3 * groups + keys + 2 * heads + 3 * paths)
    if groups ~= #of_keys or at > size then
        return nil, "wrong number of answers"
    end
    local total = sum(numbers, groups, keys, heads, paths)
    if not total or at + total ~= size then
        return nil, "wrong length"
    end
    local epoch_size = numbers[3]
    batch.epoch = sub(answer, at + 1, at + epoch_size)
    batch.answer = answer
    at = decode_groups(answer, numbers, of_keys, at + epoch_size)
    local first = 3 + 3 * groups
    local lengths, positions = batch.lengths, batch.positions
    for i = 1, keys do
        local length = numbers[first + i]
        lengths[i], positions[i] = length, at
        if length < ABSENT then
            at = at + length
        end
    end
    if paths == 0 then
        return true
    end
    first = 4 + 3 * groups + keys
    local shared, known = {}, {}
    for i = 0, heads - 1 do
        local length = numbers[first + 2 * i + 1]
        shared[i] = parse_head(numbers[first + 2 * i], sub(answer, at + 1, at + length),
                               known)
        at = at + length
    end
    first = first + 2 * heads
    local item_heads, etags, bodies = batch.heads, batch.etags, batch.bodies
    for i = 1, paths do
        local item = first + 3 * (i - 1)
        local etag_size, body_size = numbers[item + 1], numbers[item + 2]
        item_heads[i] = shared[numbers[item]] or false
        etags[i] = sub(answer, at + 1, at + etag_size)
        at = at + etag_size
        bodies[i] = sub(answer, at + 1, at + body_size)
        at = at + body_size
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

--- The value of a found key, as JSON; and the offset and the timestamp of its record, as text. Nil
-- for the timestamp if the record has none.
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
