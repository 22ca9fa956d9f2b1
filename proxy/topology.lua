--- Who holds what: the table of /processors as the router needs it. Pure.
--
-- A map is made once for each new answer and never changed after: requests under way keep theirs.
--   epoch       its text, "<leader's ms>-<generation>"
--   views       by_name, by_path, path_depth; a view is {name, key, partitions, partitioner}, its
--               partitioner a function, or nil where any backend is asked
--   holders     by view name, then partition: list of backends, the active first
--   backends    all of them: {id, host, address, port, state, rank}, address nil if unknown
--   usable      those of the best rank there is

local partitioner = require "proxy.partitioner"

local _M = {}

-- How gladly a backend is asked, by state. One that drains still answers; one that starts says
-- `catching-up` better than anybody else; one that is dead is asked when nobody else is left.
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
    return {
        id = processor.id,
        host = processor.host,
        address = address,
        port = processor.port,
        state = processor.state,
        rank = address and (RANKS[processor.state] or OTHER_STATE) or LAST_RANK,
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

local function views_of(table_of_views)
    local by_name, by_path, path_depth = {}, {}, 1
    for name, declared in pairs(table_of_views) do
        local view = {
            name = name,
            key = declared.key,
            partitions = tonumber(declared.partitions) or 0,
            partitioner = partitioner[declared.partitioner],
        }
        by_name[name] = view
        if type(declared.path) == "string" then
            local path = declared.path:gsub("/+$", "")
            by_path[path] = view
            local _, depth = path:gsub("/", "")
            path_depth = math.max(path_depth, depth)
        end
    end
    return { by_name = by_name, by_path = by_path, path_depth = path_depth }
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

local function without_dead(holders)
    local alive = {}
    for _, backend in ipairs(holders) do
        if backend.rank < LAST_RANK then
            alive[#alive + 1] = backend
        end
    end
    return alive
end

--- A map from the decoded JSON of /processors.
-- addresses: IP address by host name; a backend whose host has none is not asked.
-- Gives nil and what is wrong when the table is not a map.
function _M.build(processors, addresses)
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
            by_partition[partition] = without_dead(by_rank(list))
        end
    end
    local usable, best = {}, by_rank(backends)[1]
    for _, backend in ipairs(backends) do
        if best and backend.rank == best.rank and backend.address then
            usable[#usable + 1] = backend
        end
    end
    return {
        epoch = processors.epoch,
        views = views_of(processors.views),
        holders = holders,
        owners = owners,
        backends = backends,
        usable = usable,
    }
end

local NOBODY = {}

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

--- Up to `limit` usable backends that are not among `holders`, from place `start` on, in turn.
function _M.others(map, holders, start, limit)
    local usable, others = map.usable, {}
    for i = 0, #usable - 1 do
        local backend = usable[(start + i) % #usable + 1]
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
