--- The topology (the document of /processors) in the form that routing needs. Pure.
--
-- A topology is built for each new document and never changed afterwards: a request uses the same
-- one from start to end.
--   epoch     its text, "<leader's ms>-<generation>"
--   browsers  see browser_rules
--   views     by_name, by_path, by_prefix (of a path, up to the key), path_depth, longest_name
--             (bytes), max_key_bytes, have_quotas, differ (whether a view has holders); a view is
--             {name, encode_key, key_format, has_text_keys, is_coalesced, partitions, partitioner,
--             partitioner_name, is_mispartitioned, counts, quota, holders};
--             quota is as in quota.lua, or nil; partitioner is a function, or nil if the request
--             goes to any backend; encode_key is a function, or nil: see key_codec; key_format: the
--             format that it encodes, with the fingerprint of the schema, if there is one;
--             is_coalesced: whether point reads may be coalesced; counts: partition counts with
--             which a key's partition may have been computed, or nil: see is_in_several; holders:
--             by_rank and usable, as below, of the backends with partitions, if some backend lacks
--             the view or declares it differently
--   forward_timeout  how long a backend waits for another one (s)
--   replicas  by view name, then partition: list of backends in the order of the attempts, the
--             active before its standbys within a rank; `healthy` is the number of backends before
--             the dead ones (all, if all are dead); point_reads keeps a table there, `reads`
--   owners    by view name, then partition: the active's id
--   backends  {id, host, address, port, name, tls_name, state, rank, is_dead}; address is nil if
--             unknown, name is "address:port"; tls_name is the name that the certificate must have,
--             nil if the backend speaks HTTP
--   by_rank   backends with an address; the first `usable` of them have the best rank

local browser_rules = require "proxy.security.browser_rules"
local key_codec = require "proxy.key_codec"
local partitioner = require "proxy.partitioner"
local quota = require "proxy.security.quota"

local _M = {}

-- The order of the attempts, by state. A draining backend still answers; a starting one reports why
-- it cannot answer yet. Another backend decides that a backend is dead, and may itself be cut off
-- from the network: so dead backends are tried last, but they are tried.
local RANKS = { running = 1, draining = 2, dead = 4, stopped = 4 }
local OTHER_STATE = 3
local LAST_RANK = 4

--- Milliseconds and generation of an epoch; nil if the text is not an epoch.
local function parse_epoch(text)
    local ms, generation = tostring(text):match("^(%d+)%-(%d+)$")
    return tonumber(ms), tonumber(generation)
end

--- Whether epoch `a` is greater than `b`. Anything that is not an epoch is less than every epoch.
function _M.is_newer(a, b)
    local a_ms, a_generation = parse_epoch(a)
    local b_ms, b_generation = parse_epoch(b)
    if not a_ms or not b_ms then
        return a_ms ~= nil and b_ms == nil
    end
    if a_ms ~= b_ms then
        return a_ms > b_ms
    end
    return a_generation > b_generation
end

local function new_backend(processor, addresses, tls)
    local address = addresses[processor.host]
    local tls_name
    if processor.scheme == "https" then
        if not tls.is_on then
            address = nil
        end
        tls_name = tls.name or processor.host
    end
    local rank = RANKS[processor.state] or OTHER_STATE
    return {
        id = processor.id,
        host = processor.host,
        address = address,
        port = processor.port,
        name = (address or processor.host) .. ":" .. processor.port,
        tls_name = tls_name,
        state = processor.state,
        rank = rank,
        is_dead = rank == LAST_RANK,
    }
end

local function sorted_by_rank(backends)
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

-- the backends' default, for backends that do not report their limit. A request with a longer key
-- goes to any backend
local MAX_KEY_BYTES = 8192
local SLASH = ("/"):byte()

local function without_trailing_slashes(path)
    local size = #path
    while size > 0 and path:byte(size) == SLASH do
        size = size - 1
    end
    return path:sub(1, size)
end

local function max_key_bytes(reported)
    return type(reported) == "number" and reported >= 1 and reported or MAX_KEY_BYTES
end

-- as for MAX_KEY_BYTES. A backend waits for this time at least if many others hang: see
-- backend/queries/retry.py
local FORWARD_TIMEOUT_S = 2

local function forward_timeout(reported)
    return math.max(type(reported) == "number" and reported or 0, FORWARD_TIMEOUT_S)
end

--- Returns the partition counts with which the partition of a key may have been computed; nil if
-- partitions were never added.
local function partition_counts(reported)
    local counts = {}
    for _, count in ipairs(type(reported) == "table" and reported or {}) do
        if type(count) == "number" and count >= 1 then
            counts[#counts + 1] = count
        end
    end
    return #counts > 0 and counts or nil
end

--- Adds the view to which each path leads: the view whose name has no version, which means the
-- current version. Instances of older releases may write one path into the descriptions of several
-- views. Such a path leads to no view, and any backend decides: the result must not depend on the
-- order of the views.
local function add_paths(views, bases)
    for path, base in pairs(bases) do
        local view = views.by_name[base]
        if view then
            views.by_path[path], views.by_prefix[path .. "/"] = view, view
        end
    end
end

-- Kinds of store whose keys have one value, which comes from one record. Point reads of other views
-- are errors, or results of a class without an offset
local COALESCED_STORES = { ["key-value"] = true, global = true, versioned = true }

local function build_views(processors)
    local by_name, by_path, by_prefix, path_depth, longest = {}, {}, {}, 1, #"views"
    local quotas, have_quotas = processors.quotas, false
    local bases = {} -- by path; false: of several views
    for name, declared in pairs(processors.views) do
        local view = {
            name = name,
            encode_key = key_codec.codec(declared.key, declared.key_schema),
            partitions = tonumber(declared.partitions) or 0,
            partitioner = partitioner[declared.partitioner],
            partitioner_name = declared.partitioner,
            is_mispartitioned = declared.mispartitioned == true,
            counts = partition_counts(declared.partition_counts),
            key_format = declared.key_schema and declared.key .. ":" .. declared.key_schema
                or declared.key,
            has_text_keys = declared.key == "string",
            is_coalesced = COALESCED_STORES[declared.store] == true,
        }
        if type(quotas) == "table" and quotas[name] then
            -- "orders" and "orders@2" are one view while version 2 is current
            local base = name:match("^[^@]*")
            local label = declared.version and base .. "@" .. declared.version or name
            view.quota = quota.parse(label, quotas[name])
            have_quotas = have_quotas or view.quota ~= nil
        end
        by_name[name] = view
        by_prefix["/views/" .. name .. "/keys/"] = view
        longest = math.max(longest, #name)
        if type(declared.path) == "string" then
            local path, base = without_trailing_slashes(declared.path), name:match("^[^@]*")
            bases[path] = (bases[path] == nil or bases[path] == base) and base
            local _, depth = path:gsub("/", "")
            path_depth = math.max(path_depth, depth)
            longest = math.max(longest, #path)
        end
    end
    local views = {
        by_name = by_name,
        by_path = by_path,
        by_prefix = by_prefix,
        path_depth = path_depth,
        longest_name = longest,
        max_key_bytes = max_key_bytes(processors.max_key_bytes),
        have_quotas = have_quotas,
        differ = false,
    }
    add_paths(views, bases)
    return views
end

local function add_replicas(all, backend, partitions_by_view)
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

--- The number of replicas before the dead ones; all, if all are dead.
local function count_healthy(replicas)
    local healthy = 0
    for _, backend in ipairs(replicas) do
        healthy = healthy + (backend.is_dead and 0 or 1)
    end
    return healthy > 0 and healthy or #replicas
end

--- The headers that may have a token; none if the deployment has no authentication.
local function token_headers(reported)
    local names = {}
    for _, name in ipairs(type(reported) == "table" and reported or {}) do
        names[#names + 1] = type(name) == "string" and name:match("^[%w-]+$")
    end
    return names
end

--- Returns the backends by rank, and how many of them have the best rank.
local function ranked(backends)
    local by_rank, usable = sorted_by_rank(backends), 0
    for _, backend in ipairs(by_rank) do
        usable = usable + (backend.rank == by_rank[1].rank and 1 or 0)
    end
    return by_rank, usable
end

--- Sets `holders` of each view that the backends do not all declare in the same way: only its
-- holders can answer.
local function add_holders(views, processors, replicas, backends)
    for name, view in pairs(views.by_name) do
        if processors.views[name].differs == true then
            local has = {}
            for _, list in pairs(replicas[name]) do
                for _, backend in ipairs(list) do
                    has[backend] = true
                end
            end
            local holders = {}
            for _, backend in ipairs(backends) do
                holders[#holders + 1] = has[backend] and backend or nil
            end
            local by_rank, usable = ranked(holders)
            if #by_rank > 0 then
                view.holders, views.differ = { by_rank = by_rank, usable = usable }, true
            end
        end
    end
end

local function build(processors, addresses, tls)
    if type(processors) ~= "table" or not parse_epoch(processors.epoch) then
        return nil, "it has no epoch"
    end
    if type(processors.views) ~= "table" or type(processors.processors) ~= "table" then
        return nil, "it has no views or no processors"
    end
    local backends, replicas = {}, {}
    for name in pairs(processors.views) do
        replicas[name] = {}
    end
    for index, processor in ipairs(processors.processors) do
        if type(processor.host) ~= "string" or type(processor.port) ~= "number" then
            return nil, "a processor has no host or port"
        end
        backends[index] = new_backend(processor, addresses, tls)
    end
    -- all actives before any standby
    for _, role in ipairs { "topicPartitions", "standbyPartitions" } do
        for index, processor in ipairs(processors.processors) do
            add_replicas(replicas, backends[index], processor[role])
        end
    end
    local owners = {}
    for name, by_partition in pairs(replicas) do
        owners[name] = {}
        for partition, list in pairs(by_partition) do
            owners[name][partition] = list[1].id
            local sorted = sorted_by_rank(list)
            sorted.healthy = count_healthy(sorted)
            by_partition[partition] = sorted
        end
    end
    local by_rank, usable = ranked(backends)
    local views = build_views(processors)
    add_holders(views, processors, replicas, backends)
    return {
        epoch = processors.epoch,
        browsers = browser_rules.new(processors.allowed_hosts),
        token_headers = token_headers(processors.token_headers),
        views = views,
        forward_timeout = forward_timeout(processors.forward_timeout),
        replicas = replicas,
        owners = owners,
        backends = backends,
        by_rank = by_rank,
        usable = usable,
    }
end

--- Builds a topology from the decoded JSON of /processors, which may be any value. Nil and an error
-- if it is invalid.
-- addresses: IP address by host name; backends on other hosts get no requests.
-- tls: {is_on, name}. is_on: whether backends that speak HTTPS get requests; name: the name in all
-- their certificates (nil: each certificate has the host of its backend).
function _M.build(processors, addresses, tls)
    local ok, topology, err = pcall(build, processors, addresses, tls or {})
    if not ok then
        return nil, "it has an unexpected structure: " .. tostring(topology)
    end
    return topology, err
end

local NO_REPLICAS = { healthy = 0 }

--- Returns the key's partition, its replicas in the order of the attempts, and the active's id.
-- Returns nil, no replicas and nil if the partition is unknown, for example without a partitioner:
-- then the request goes to any backend.
function _M.replicas(topology, view, key)
    if not view or not key or not view.partitioner or view.partitions < 1 then
        return nil, NO_REPLICAS, nil
    end
    -- librdkafka's default partitioner puts the empty key into any partition
    if key == "" and view.partitioner_name == "crc32" then
        return nil, NO_REPLICAS, nil
    end
    local partition = view.partitioner(key, view.partitions)
    local replicas = topology.replicas[view.name][partition] or NO_REPLICAS
    return partition, replicas, topology.owners[view.name][partition]
end

--- Whether the key may be in other partitions than this one, too. Then a backend asks all of them.
function _M.is_in_several(view, key, partition)
    if view.is_mispartitioned then
        return true
    end
    local counts = view.counts
    if counts then
        for i = 1, #counts do
            if view.partitioner(key, counts[i]) ~= partition then
                return true
            end
        end
    end
    return false
end

local function contains(list, backend)
    for i = 1, #list do
        if list[i] == backend then
            return true
        end
    end
    return false
end

--- Up to `limit` backends that are not among `replicas`: first the usable ones, from index `start`
-- with wrap-around, then the others by rank. topology: or the holders of a view.
function _M.others(topology, replicas, start, limit)
    local by_rank, usable, others = topology.by_rank, topology.usable, {}
    for i = 0, #by_rank - 1 do
        local index = i < usable and (start + i) % usable or i
        local backend = by_rank[index + 1]
        if not contains(replicas, backend) then
            others[#others + 1] = backend
            if #others == limit then
                break
            end
        end
    end
    return others
end

return _M
