local cjson = require "cjson"
local topology = require "proxy.topology"
local partitioner = require "proxy.partitioner"

local ADDRESSES = { one = "10.0.0.1", two = "10.0.0.2", three = "10.0.0.3" }

local function processor(id, host, state, active, standby)
    return {
        id = id, host = host, port = 8081, state = state,
        topicPartitions = { words = active }, standbyPartitions = { words = standby },
    }
end

local function processors(list, partitions)
    return {
        epoch = "1000-1",
        views = {
            words = {
                path = "/words", topic = "words", partitions = partitions or 3,
                partitioner = "murmur2", key = "string", store = "key-value",
            },
        },
        processors = list,
    }
end

local function ids(backends)
    local list = {}
    for index, backend in ipairs(backends) do
        list[index] = backend.id
    end
    return table.concat(list, " ")
end

local function usable(map)
    return { unpack(map.by_rank, 1, map.usable) }
end

--- A key of the partition.
local function key_in(partition, count)
    for number = 1, 1000 do
        if partitioner.murmur2("k" .. number, count) == partition then
            return "k" .. number
        end
    end
end

local function replicas_of(map, partition)
    local view = map.views.by_name.words
    local _, replicas, owner = topology.replicas(map, view, key_in(partition, view.partitions))
    return ids(replicas), owner
end

describe("epochs", function()
    it("1 are ordered by ms, then by generation, as numbers", function()
        assert.is_true(topology.is_newer("1001-1", "1000-9"))
        assert.is_true(topology.is_newer("1000-10", "1000-9"))
        assert.is_true(topology.is_newer("10000-1", "9999-1"))
        assert.is_false(topology.is_newer("1000-9", "1000-10"))
        assert.is_false(topology.is_newer("1000-1", "1000-1"))
    end)

    it("2 are greater than a missing epoch; other text is never greater", function()
        assert.is_true(topology.is_newer("1-1", nil))
        for _, text in ipairs { "", "x", "1", "1-", "-1", "1-1-1", "1.5-1" } do
            assert.is_false(topology.is_newer(text, "1-1"))
            assert.is_false(topology.is_newer(text, nil))
        end
        assert.is_false(topology.is_newer(nil, "1-1"))
    end)
end)

describe("a topology", function()
    it("3 puts the active before the standbys", function()
        local map = topology.build(processors {
            processor("b1", "one", "running", { 0 }, { 1, 2 }),
            processor("b2", "two", "running", { 1 }, { 0 }),
            processor("b3", "three", "running", { 2 }, { 0 }),
        }, ADDRESSES)
        assert.same({ "b1 b2 b3", "b1" }, { replicas_of(map, 0) })
        assert.same({ "b2 b1", "b2" }, { replicas_of(map, 1) })
        assert.same({ "b3 b1", "b3" }, { replicas_of(map, 2) })
        assert.equal("10.0.0.2", map.replicas.words[1][1].address)
    end)

    it("4 puts draining backends after running ones, and dead ones last", function()
        local map = topology.build(processors {
            processor("b1", "one", "draining", { 0 }, { 1 }),
            processor("b2", "two", "running", { 1 }, { 0 }),
            processor("b3", "three", "dead", { 2 }, { 0, 1 }),
        }, ADDRESSES)
        assert.same({ "b2 b1 b3", "b1" }, { replicas_of(map, 0) })
        assert.same({ "b2 b1 b3", "b2" }, { replicas_of(map, 1) })
        assert.same({ "b3", "b3" }, { replicas_of(map, 2) })
        assert.equal("b2", ids(usable(map)))
    end)

    it("5 keeps an active in another state, which reports why it cannot answer", function()
        local map = topology.build(processors {
            processor("b1", "one", "starting", { 0 }, {}),
            processor("b2", "two", "running", { 1, 2 }, {}),
        }, ADDRESSES)
        assert.same({ "b1", "b1" }, { replicas_of(map, 0) })
    end)

    it("6 omits backends without an address", function()
        local map = topology.build(processors {
            processor("b1", "nowhere", "running", { 0 }, {}),
            processor("b2", "two", "running", {}, { 0 }),
        }, ADDRESSES)
        assert.same({ "b2", "b1" }, { replicas_of(map, 0) })
        assert.equal("b2", ids(usable(map)))
    end)

    it("7 falls back to the best available backends", function()
        local map = topology.build(processors {
            processor("b1", "one", "draining", {}, {}), processor("b2", "two", "dead", {}, {}),
        }, ADDRESSES)
        assert.equal("b1", ids(usable(map)))
        map = topology.build(processors { processor("b2", "two", "dead", {}, {}) }, ADDRESSES)
        assert.equal("b2", ids(usable(map)))
        assert.equal("", ids(usable(topology.build(processors {}, ADDRESSES))))
    end)

    it("8 takes the partition count from the view, never from the lists", function()
        local map = topology.build(processors({
            processor("b1", "one", "running", { 0 }, {}),
        }, 50), ADDRESSES)
        local view = map.views.by_name.words
        local partition, replicas = topology.replicas(map, view, key_in(49, 50))
        assert.equal(49, partition)
        assert.equal(0, #replicas)
    end)

    it("9 has no replicas without partitions, partitioner or key", function()
        local answer = processors({ processor("b1", "one", "running", { 0 }, {}) }, 0)
        local map = topology.build(answer, ADDRESSES)
        assert.is_nil((topology.replicas(map, map.views.by_name.words, "k")))
        answer.views.words.partitions = 3
        answer.views.words.partitioner = "none"
        map = topology.build(answer, ADDRESSES)
        assert.is_nil((topology.replicas(map, map.views.by_name.words, "k")))
        answer.views.words.partitioner = "crc32"
        map = topology.build(answer, ADDRESSES)
        assert.is_nil((topology.replicas(map, map.views.by_name.words, nil)))
        assert.is_nil((topology.replicas(map, nil, "k")))
        assert.equal(partitioner.crc32("k", 3),
            (topology.replicas(map, map.views.by_name.words, "k")))
    end)

    it("10 returns other backends round robin, without the replicas", function()
        local map = topology.build(processors {
            processor("b1", "one", "running", { 0 }, {}),
            processor("b2", "two", "running", {}, {}),
            processor("b3", "three", "running", {}, {}),
        }, ADDRESSES)
        local replicas = map.replicas.words[0]
        assert.equal("b2 b3", ids(topology.others(map, replicas, 0, 2)))
        assert.equal("b3 b2", ids(topology.others(map, replicas, 2, 2)))
        assert.equal("b2", ids(topology.others(map, replicas, 3, 1)))
        assert.equal("b1 b2 b3", ids(topology.others(map, {}, 0, 5)))
        assert.equal("b2 b3", ids(topology.others(map, {}, 1, 2)))
    end)

    it("11 returns other backends by rank", function()
        local map = topology.build(processors {
            processor("b1", "one", "dead", {}, {}),
            processor("b2", "two", "running", {}, {}),
            processor("b3", "three", "draining", {}, {}),
            processor("b4", "nowhere", "running", {}, {}),
            processor("b5", "one", "running", {}, {}),
        }, ADDRESSES)
        assert.equal("b2 b5 b3 b1", ids(topology.others(map, {}, 0)))
        assert.equal("b5 b2 b3", ids(topology.others(map, {}, 1, 3)))
    end)

    it("12 counts the replicas that come before the dead", function()
        local map = topology.build(processors {
            processor("b1", "one", "running", { 0 }, {}),
            processor("b2", "two", "draining", {}, { 0 }),
            processor("b3", "three", "dead", { 1 }, { 0 }),
        }, ADDRESSES)
        assert.equal(2, map.replicas.words[0].healthy)
        assert.equal(1, map.replicas.words[1].healthy)
    end)

    it("13 finds views by short path, with or without a trailing slash", function()
        local answer = processors {}
        answer.views.words.path = "/a/b/"
        local map = topology.build(answer, ADDRESSES)
        assert.equal("words", map.views.by_path["/a/b"].name)
        assert.equal("words", map.views.by_prefix["/a/b/"].name)
        assert.equal("words", map.views.by_prefix["/views/words/keys/"].name)
        assert.equal(2, map.views.path_depth)
        answer.views.words.path = nil
        assert.same({}, topology.build(answer, ADDRESSES).views.by_path)
    end)

    it("13a knows which point reads may be coalesced, and the format of their keys", function()
        local answer = processors {}
        local words = answer.views.words
        for _, case in ipairs {
            { "string", "key-value", true, true }, { "bytes", "global", true, false },
            { "string", "versioned", true, true }, { "string", "window", false, true },
            { "string", "my.module:Class", false, true }, { "string", nil, false, true },
            { "avro", "key-value", true, false, "c70345637248018f" },
        } do
            local schema
            words.key, words.store, schema = case[1], case[2], case[5]
            words.key_schema = schema
            local view = topology.build(answer, ADDRESSES).views.by_name.words
            assert.same({ case[3], case[4] }, { view.is_coalesced, view.has_text_keys })
            assert.equal(schema and "avro:" .. schema or case[1], view.key_format)
            assert.equal(words.partitioner, view.partitioner_name)
        end
    end)

    it("14 is not built from an invalid document", function()
        for _, answer in ipairs {
            false, {}, { epoch = "1-1" }, { epoch = 7, views = {}, processors = {} },
            { epoch = "1-1", views = {}, processors = "x" },
            { epoch = "1-1", views = {}, processors = { { id = "b1", host = "one" } } },
            { epoch = "1-1", views = {}, processors = { { id = "b1", port = 8081 } } },
            { epoch = "1-1", views = { words = 7 }, processors = {} },
            { epoch = "1-1", views = {}, processors = { 7 } },
            { epoch = "1-1", views = {}, processors = { cjson.null } },
            { epoch = "1-1", views = { words = {} }, processors = {
                { id = "b1", host = "one", port = 1, topicPartitions = { words = 7 } } } },
            { epoch = "1-1", views = { words = {} }, processors = {
                { id = "b1", host = "one", port = 1, topicPartitions = { words = { 0 / 0 } } } } },
        } do
            local map, err = topology.build(answer, ADDRESSES)
            assert.is_nil(map)
            assert.is_string(err)
        end
    end)

    it("15 ignores partitions of unknown views", function()
        local other = processor("b1", "one", "running", { 0 }, {})
        other.topicPartitions.unknown = { 0 }
        other.standbyPartitions = cjson.null
        local map = topology.build(processors { other }, ADDRESSES)
        assert.is_nil(map.replicas.unknown)
        assert.same({ "b1", "b1" }, { replicas_of(map, 0) })
    end)

    it("16 has the longest key that backends report, or the default", function()
        local answer = processors {}
        assert.equal(8192, topology.build(answer, ADDRESSES).views.max_key_bytes)
        for _, reported in ipairs { cjson.null, "100", 0, -1, {} } do
            answer.max_key_bytes = reported
            assert.equal(8192, topology.build(answer, ADDRESSES).views.max_key_bytes)
        end
        answer.max_key_bytes = 100
        assert.equal(100, topology.build(answer, ADDRESSES).views.max_key_bytes)
    end)

    it("17 has the name of the certificate for each backend that speaks HTTPS", function()
        local list = {
            processor("b1", "one", "running", { 0 }, {}),
            processor("b2", "two", "running", { 1 }, {}),
        }
        list[2].scheme = "https"
        local function names(tls)
            local map = assert(topology.build(processors(list), ADDRESSES, tls))
            return map.backends[1].tls_name, map.backends[2].tls_name, ids(map.by_rank)
        end
        assert.same({ nil, "two", "b1 b2" }, { names { is_on = true } })
        assert.same({ nil, "all", "b1 b2" }, { names { is_on = true, name = "all" } })
        assert.same({ nil, "two", "b1" }, { names { is_on = false } })
    end)

    it("18 knows which keys may be in several partitions", function()
        local answer = processors({}, 9)
        local words = answer.views.words
        local function several(key)
            local view = topology.build(answer, ADDRESSES).views.by_name.words
            return topology.is_in_several(view, key, view.partitioner(key, 9))
        end
        local stayed, moved
        for number = 1, 100 do
            local key = "k" .. number
            if partitioner.murmur2(key, 9) == partitioner.murmur2(key, 4) then
                stayed = key
            else
                moved = key
            end
        end
        assert.is_false(several(moved))
        words.partition_counts = { 4, 9 }
        assert.is_true(several(moved))
        assert.is_false(several(stayed))
        for _, malformed in ipairs { cjson.null, "4", {}, { 0, "x" } } do
            words.partition_counts = malformed
            assert.is_false(several(moved))
        end
        words.mispartitioned = true
        assert.is_true(several(stayed))
    end)

    it("19 knows how long backends wait for each other, or has the default", function()
        local answer = processors {}
        for _, reported in ipairs { cjson.null, "3", 0, -1, 0.5, {} } do
            answer.forward_timeout = reported
            assert.equal(2, topology.build(answer, ADDRESSES).forward_timeout)
        end
        answer.forward_timeout = 3.5
        assert.equal(3.5, topology.build(answer, ADDRESSES).forward_timeout)
    end)

    it("20 reads a path from the current version, in whatever order the views come", function()
        -- as an instance of an older version writes it that does not declare version 2
        local answer = processors {}
        answer.views = {}
        for number = 1, 40 do
            local name = "view" .. number
            answer.views[name] = { partitions = 1, path = "/" .. number }
            answer.views[name .. "@2"] = { partitions = 1, path = "/" .. number }
        end
        local views = topology.build(answer, ADDRESSES).views
        for number = 1, 40 do
            assert.equal("view" .. number, views.by_path["/" .. number].name)
            assert.equal("view" .. number, views.by_prefix["/" .. number .. "/"].name)
        end
        answer.views.view1 = nil
        views = topology.build(answer, ADDRESSES).views
        assert.is_nil(views.by_path["/1"])
        assert.is_nil(views.by_prefix["/1/"])
    end)

    it("21 leaves a path of several views to the backends", function()
        local answer = processors {}
        for _, names in ipairs {
            { "a", "b" }, { "a", "b@2" }, { "a", "a@2", "b" }, { "b", "c", "d" },
        } do
            answer.views = {}
            for _, name in ipairs(names) do
                answer.views[name] = { partitions = 1, path = "/x" }
            end
            local views = topology.build(answer, ADDRESSES).views
            assert.same({}, views.by_path)
            assert.is_nil(views.by_prefix["/x/"])
            assert.equal(names[1], views.by_prefix["/views/" .. names[1] .. "/keys/"].name)
        end
    end)

    it("22 knows who can answer for a view that not all backends declare alike", function()
        local list = {
            processor("b1", "one", "running", {}, {}),
            processor("b2", "two", "draining", { 0, 1 }, {}),
            processor("b3", "three", "running", {}, { 0 }),
        }
        local answer = processors(list)
        local map = topology.build(answer, ADDRESSES)
        assert.is_nil(map.views.by_name.words.holders)
        assert.is_false(map.views.differ)
        answer.views.words.differs = true
        map = topology.build(answer, ADDRESSES)
        assert.is_true(map.views.differ)
        local holders = map.views.by_name.words.holders
        assert.equal("b3 b2", ids(holders.by_rank))
        assert.equal(1, holders.usable)
        assert.equal("b3 b2", ids(topology.others(holders, {}, 5, 3)))
        list[2].topicPartitions.words, list[3].standbyPartitions.words = {}, {}
        assert.is_nil(topology.build(answer, ADDRESSES).views.by_name.words.holders)
    end)

    it("counts a version that is current once, by whichever name", function()
        local answer = processors({})
        answer.views = {
            words = { partitions = 1, version = 2 },
            ["words@1"] = { partitions = 1, version = 1 },
            ["words@2"] = { partitions = 1, version = 2 },
            other = { partitions = 1 },
        }
        answer.quotas = {
            words = "5/s", ["words@1"] = "5/s", ["words@2"] = "5/s", other = "5/s",
        }
        local views = topology.build(answer, ADDRESSES).views.by_name
        assert.equal(views["words@2"].quota.key, views.words.quota.key)
        assert.not_equal(views["words@1"].quota.key, views.words.quota.key)
        assert.equal("tokens:other:5/s", views.other.quota.key)
    end)
end)
