--- Who holds what: the table of /processors as the router needs it. Pure.
--
-- A map is made once for each new answer and never changed after: requests under way keep theirs.
--   epoch       its text, "<leader's ms>-<generation>"
--   views       by_name, by_path, path_depth, longest_name (bytes), max_key_bytes; a view is
--               {name, key, partitions, partitioner}, its partitioner a function, or nil where any
--               backend is asked
--   holders     by view name, then partition: list of backends as they are asked, the active before
--               the standbys within a rank; its `good` is how many come before the dead (all, if
--               all are dead)
--   owners      by view name, then partition: the active's id
--   backends    all of them: {id, host, address, port, name, state, rank, is_dead}; address nil if
--               unknown, name is "address:port"
--   ordered     those with an address, by rank; the first `usable` of them are of the best rank

local partitioner = require "proxy.partitioner"

local _M = {}

-- How gladly a backend is asked, by state. One that drains still answers; one that starts says
-- `catching-up` better than anybody else. That one is dead is what another believes, who may be the
-- one that is cut off: it is asked last, not never.
local RANKS = { running = 1, draining = 2, dead = 4, stopped = 4 }
local OTHER_STATE = 3
local LAST_RANK = 4

--- Milliseconds and generation of an epoch; nil if the text is no epoch.
local function epoch_numbers(text)
    local ms, generation = tostring(text):match("^(%d+)%-(%d+)$")
    return tonumber(ms), tonumber(generation)
end

--- Whether epoch `a` is greater than `b`. No epoch (nil, or text that is none) is the least of all.
function _M.is_newer(a, b)
    local a_ms, a_generation = epoch_numbers(a)
    local b_ms, b_generation = epoch_numbers(b)
    if not a_ms or not b_ms then
        return a_ms ~= nil and b_ms == nil
    end
    if a_ms ~= b_ms then
        return a_ms > b_ms
    end
    return a_generation > b_generation
end

local function backend_of(processor, addresses)
    local address = addresses[processor.host]
    local rank = RANKS[processor.state] or OTHER_STATE
    return {
        id = processor.id,
        host = processor.host,
        address = address,
        port = processor.port,
        name = (address or processor.host) .. ":" .. processor.port,
        state = processor.state,
        rank = rank,
        is_dead = rank == LAST_RANK,
    }
end

local function by_rank(backends)
    local sorted = {}
    for rank = 1, LAST_RANK do
        for _, backend in ipairs(backends) do
            if backend.rank == rank and backend.address then
                sorted[#sorted + 1] = backend
            end
        end
    end
    return sorted
end

-- Where a backend does not say how long a key may be: the default of all versions. A longer key is
-- no error here, it goes to any backend.
local MAX_KEY_BYTES = 8192
local SLASH = ("/"):byte()

--- A path without slashes at its end.
local function trimmed(path)
    local size = #path
    while size > 0 and path:byte(size) == SLASH do
        size = size - 1
    end
    return path:sub(1, size)
end

local function max_key_bytes_of(said)
    return type(said) == "number" and said >= 1 and said or MAX_KEY_BYTES
end

local function views_of(processors)
    local by_name, by_path, path_depth, longest = {}, {}, 1, #"views"
    for name, declared in pairs(processors.views) do
        local view = {
            name = name,
            key = declared.key,
            partitions = tonumber(declared.partitions) or 0,
            partitioner = partitioner[declared.partitioner],
        }
        by_name[name] = view
        longest = math.max(longest, #name)
        if type(declared.path) == "string" then
            local path = trimmed(declared.path)
            by_path[path] = view
            local _, depth = path:gsub("/", "")
            path_depth = math.max(path_depth, depth)
            longest = math.max(longest, #path)
        end
    end
    return {
        by_name = by_name,
        by_path = by_path,
        path_depth = path_depth,
        longest_name = longest,
        max_key_bytes = max_key_bytes_of(processors.max_key_bytes),
    }
end

local function add_holders(all, backend, partitions_by_view)
    if type(partitions_by_view) ~= "table" then
        return
    end
    for name, partitions in pairs(partitions_by_view) do
        local by_partition = all[name]
        if by_partition then
            for _, partition in ipairs(partitions) do
                by_partition[partition] = by_partition[partition] or {}
                table.insert(by_partition[partition], backend)
            end
        end
    end
end

--- How many come before the dead; all, if all are dead.
local function count_good(holders)
    local good = 0
    for _, backend in ipairs(holders) do
        good = good + (backend.is_dead and 0 or 1)
    end
    return good > 0 and good or #holders
end

local function build(processors, addresses)
    if type(processors) ~= "table" or not epoch_numbers(processors.epoch) then
        return nil, "no epoch in it"
    end
    if type(processors.views) ~= "table" or type(processors.processors) ~= "table" then
        return nil, "no views or no processors in it"
    end
    local backends, holders = {}, {}
    for name in pairs(processors.views) do
        holders[name] = {}
    end
    for index, processor in ipairs(processors.processors) do
        if type(processor.host) ~= "string" or type(processor.port) ~= "number" then
            return nil, "a processor without host and port in it"
        end
        backends[index] = backend_of(processor, addresses)
    end
    -- all actives before any standby
    for _, role in ipairs { "topicPartitions", "standbyPartitions" } do
        for index, processor in ipairs(processors.processors) do
            add_holders(holders, backends[index], processor[role])
        end
    end
    local owners = {}
    for name, by_partition in pairs(holders) do
        owners[name] = {}
        for partition, list in pairs(by_partition) do
            owners[name][partition] = list[1].id
            local ordered = by_rank(list)
            ordered.good = count_good(ordered)
            by_partition[partition] = ordered
        end
    end
    local ordered, usable = by_rank(backends), 0
    for _, backend in ipairs(ordered) do
        usable = usable + (backend.rank == ordered[1].rank and 1 or 0)
    end
    return {
        epoch = processors.epoch,
        views = views_of(processors),
        holders = holders,
        owners = owners,
        backends = backends,
        ordered = ordered,
        usable = usable,
    }
end

--- A map from the decoded JSON of /processors.
-- addresses: IP address by host name; a backend whose host has none is not asked.
-- Gives nil and what is wrong when the table is not a map, whatever else it is.
function _M.build(processors, addresses)
    local ok, map, err = pcall(build, processors, addresses)
    if not ok then
        return nil, "not of the form of a map: " .. tostring(map)
    end
    return map, err
end

local NOBODY = { good = 0 }

--- Partition, its holders in the order in which to ask them, and the active's id.
-- Nil, no holders and nil where any backend is as good: no partitioner, or no partitions yet.
function _M.holders(map, view, key)
    if not view or not key or not view.partitioner or view.partitions < 1 then
        return nil, NOBODY, nil
    end
    local partition = view.partitioner(key, view.partitions)
    return partition, map.holders[view.name][partition] or NOBODY, map.owners[view.name][partition]
end

local function is_among(backend, list)
    for i = 1, #list do
        if list[i] == backend then
            return true
        end
    end
    return false
end

--- Up to `limit` backends that are not among `holders`: the usable ones in turn, from place `start`
-- on, then the others by rank.
function _M.others(map, holders, start, limit)
    local ordered, usable, others = map.ordered, map.usable, {}
    for i = 0, #ordered - 1 do
        local place = i < usable and (start + i) % usable or i
        local backend = ordered[place + 1]
        if not is_among(backend, holders) then
            others[#others + 1] = backend
            if #others == limit then
                break
            end
        end
    end
    return others
end

return _M
