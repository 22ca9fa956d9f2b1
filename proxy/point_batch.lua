--- Framing of coalesced point reads; backend/wire/point_batch.py describes it. Pure.

local ffi = require "ffi"

local cast, concat, find, sub = ffi.cast, table.concat, string.find, string.sub
-- the framing is little-endian, like every machine on which nginx runs LuaJIT
local NUMBERS = ffi.typeof("const uint32_t *")

local TOKEN, MAGIC = "token:", "QTR1"
local FIXED_BYTES = 16
-- instead of a head: the read was not answered and must be sent by itself
local ALONE = 0xFFFFFFFF

local _M = {}

--- Bytes that a token adds to a request.
function _M.token_bytes(token)
    return token == "" and 0 or #TOKEN + #token + 1
end

--- Adds the paths of a group. Returns the number of reads up to its last one.
local function append(lines, group, first)
    local paths, size = group.paths, #lines
    for i = 1, group.count do
        lines[size + i] = paths[i]
    end
    group.first = first
    return first + group.count
end

--- Encodes groups of reads with the same token, {token, count, paths}: a list, and by token. Sets
-- `first` of each group: the number of reads that are answered before those of the group.
function _M.encode(groups)
    local without = groups[""]
    if without and #groups == 1 then
        without.first = 0
        return concat(without.paths, "\n")
    end
    local lines = {}
    local reads = without and append(lines, without, 0) or 0
    for i = 1, #groups do
        local group = groups[i]
        if group ~= without then
            lines[#lines + 1] = TOKEN .. group.token
            reads = append(lines, group, reads)
        end
    end
    return concat(lines, "\n")
end

local function parse_head(status, lines)
    local names, values = {}, {}
    local served_by
    local from = 1
    while true do
        -- `find` per line, because a pattern would search for the colon from every position
        local feed = find(lines, "\n", from, true)
        if not feed then
            break
        end
        local line = sub(lines, from, feed - 1)
        local colon = find(line, ": ", 1, true)
        if colon and colon > 1 then
            local name, value = sub(line, 1, colon - 1), sub(line, colon + 2)
            names[#names + 1], values[#values + 1] = name, value
            served_by = name == "served-by" and value or served_by
        end
        from = feed + 1
    end
    return { status = status, names = names, values = values, served_by = served_by }
end

--- Decodes `count` answers into the tables `heads`, `etags` and `bodies` of `batch`, and its
-- `epoch`. A head is {status, names, values, served_by}, or false for a read that must be sent by
-- itself.
-- Returns true; or nil and an error, and then `batch` is unchanged.
function _M.decode(answer, count, batch)
    local size = #answer
    if size < FIXED_BYTES or sub(answer, 1, 4) ~= MAGIC then
        return nil, "not a batch of answers"
    end
    local numbers = cast(NUMBERS, answer)
    local heads, epoch_size = numbers[2], numbers[3]
    local at = FIXED_BYTES + 8 * heads + 12 * count
    if numbers[1] ~= count or at > size then
        return nil, "wrong number of answers"
    end
    local total = at + epoch_size
    for i = 1, heads do
        total = total + numbers[3 + 2 * i]
    end
    local first = 4 + 2 * heads
    for i = first, first + 3 * count - 1, 3 do
        local head = numbers[i]
        if head ~= ALONE and head >= heads then
            return nil, "an answer refers to a missing head"
        end
        total = total + numbers[i + 1] + numbers[i + 2]
    end
    if total ~= size then
        return nil, "wrong length"
    end
    batch.epoch = sub(answer, at + 1, at + epoch_size)
    at = at + epoch_size
    local shared = {}
    for i = 1, heads do
        local length = numbers[3 + 2 * i]
        shared[i - 1] = parse_head(numbers[2 + 2 * i], sub(answer, at + 1, at + length))
        at = at + length
    end
    local item_heads, etags, bodies = batch.heads, batch.etags, batch.bodies
    for i = 1, count do
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

return _M
