--- Point reads that travel together: the framing of backend/wire/point_batch.py. Pure.

local ffi = require "ffi"

local cast, find, sub = ffi.cast, string.find, string.sub
-- the framing is little-endian, as all machines are that LuaJIT's nginx runs on
local NUMBERS = ffi.typeof("const uint32_t *")

local MAGIC = "QTR1"
local FIXED = 16
local ALONE = 0xFFFFFFFF

local _M = {}

function _M.encode(paths)
    return table.concat(paths, "\n")
end

local function head_of(status, lines)
    local names, values = {}, {}
    local from = 1
    while true do
        -- line by line: a pattern would look for the colon from each place on
        local feed = find(lines, "\n", from, true)
        if not feed then
            break
        end
        local line = sub(lines, from, feed - 1)
        local colon = find(line, ": ", 1, true)
        if colon and colon > 1 then
            names[#names + 1], values[#values + 1] = sub(line, 1, colon - 1), sub(line, colon + 2)
        end
        from = feed + 1
    end
    return { status = status, names = names, values = values }
end

--- Takes `count` answers apart into the tables `heads`, `etags` and `bodies` of `batch`, and its
-- `epoch`. A head is {status, names, values}; there is none for what has to be asked alone.
-- Gives true; or nil and what is wrong, and then nothing has been taken.
function _M.decode(answer, count, batch)
    local size = #answer
    if size < FIXED or sub(answer, 1, 4) ~= MAGIC then
        return nil, "no answers to point reads"
    end
    local numbers = cast(NUMBERS, answer)
    local heads, epoch_size = numbers[2], numbers[3]
    local at = FIXED + 8 * heads + 12 * count
    if numbers[1] ~= count or at > size then
        return nil, "another number of answers"
    end
    local total = at + epoch_size
    for i = 1, heads do
        total = total + numbers[3 + 2 * i]
    end
    local first = 4 + 2 * heads
    for i = first, first + 3 * count - 1, 3 do
        local head = numbers[i]
        if head ~= ALONE and head >= heads then
            return nil, "an answer without a head"
        end
        total = total + numbers[i + 1] + numbers[i + 2]
    end
    if total ~= size then
        return nil, "answers of another length"
    end
    batch.epoch = sub(answer, at + 1, at + epoch_size)
    at = at + epoch_size
    local shared = {}
    for i = 1, heads do
        local length = numbers[3 + 2 * i]
        shared[i - 1] = head_of(numbers[2 + 2 * i], sub(answer, at + 1, at + length))
        at = at + length
    end
    local of_heads, etags, bodies = batch.heads, batch.etags, batch.bodies
    for i = 1, count do
        local place = first + 3 * (i - 1)
        local etag_size, body_size = numbers[place + 1], numbers[place + 2]
        of_heads[i] = shared[numbers[place]] or false
        etags[i] = sub(answer, at + 1, at + etag_size)
        at = at + etag_size
        bodies[i] = sub(answer, at + 1, at + body_size)
        at = at + body_size
    end
    return true
end

return _M
