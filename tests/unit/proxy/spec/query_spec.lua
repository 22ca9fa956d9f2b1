local key_codec = require "proxy.key_codec"
local query = require "proxy.query"

local messages = { name = "latest-departure", encode_key = key_codec.codec("string") }
local counts = { name = "counts", encode_key = key_codec.codec("int32") }
local deep = { name = "deep", encode_key = key_codec.codec("string") }
local odd = { name = "naïve view", encode_key = key_codec.codec("bytes") }

local texts = { name = "texts", encode_key = key_codec.codec("string"), has_text_keys = true }

local second = { name = "messages@2", encode_key = key_codec.codec("string") }

local VIEWS = {
    by_name = {
        ["latest-departure"] = messages, counts = counts, deep = deep, ["naïve view"] = odd,
        ["messages@2"] = second, texts = texts,
    },
    by_path = { ["/messages"] = messages, ["/a/b"] = deep, ["/a"] = counts,
                ["/a/texts"] = texts },
    by_prefix = {
        ["/messages/"] = messages, ["/a/b/"] = deep, ["/a/"] = counts, ["/a/texts/"] = texts,
        ["/views/texts/keys/"] = texts, ["/views/counts/keys/"] = counts,
    },
    path_depth = 2,
    longest_name = #"latest-departure",
    max_key_bytes = 8192,
}

local function parse(request_uri)
    return query.parse(request_uri, VIEWS)
end

local function assert_key(view, key, request_uri)
    local found_view, found_key = parse(request_uri)
    assert.equal(view, found_view, request_uri)
    assert.equal(key, found_key, request_uri)
end

local function assert_no_key(request_uri)
    local _, key = parse(request_uri)
    assert.is_nil(key, request_uri)
end

describe("the query", function()
    it("1 finds view and key by the short path", function()
        assert_key(messages, "N12345", "/messages/N12345")
        assert_key(messages, "N12345", "/messages/N12345?stale=allow")
    end)

    it("2 finds view and key by the canonical path", function()
        assert_key(messages, "N12345", "/views/latest-departure/keys/N12345")
        assert_key(odd, "k", "/views/na%C3%AFve%20view/keys/k")
        -- a version of a view
        assert_key(second, "k@1", "/views/messages@2/keys/k@1")
        assert_key(second, "k", "/views/messages%402/keys/k")
    end)

    it("3 decodes each part once, after splitting", function()
        assert_key(messages, "a/b", "/messages/a%2Fb")
        assert_key(messages, "a/b", "/messages/a%2fb")
        assert_key(messages, "a%2Fb", "/messages/a%252Fb")
        assert_key(messages, "50%", "/messages/50%25")
        assert_key(messages, "a b", "/messages/a%20b")
        assert_key(messages, "a+b", "/messages/a+b")
        assert_key(messages, "a?b#c", "/messages/a%3Fb%23c")
        assert_key(messages, "\255\0", "/messages/%FF%00")
        assert_key(messages, "日本", "/messages/%E6%97%A5%E6%9C%AC")
        assert_key(messages, "..", "/messages/%2E%2E")
        assert_key(messages, "processors", "/messages/processors")
        assert_key(messages, "k", "/mess%61ges/k")
    end)

    it("4 has no key if a per cent sign begins no escape", function()
        for _, key in ipairs { "50%", "%zz", "%5", "%4z", "%", "a%%41" } do
            assert_no_key("/messages/" .. key)
        end
    end)

    it("5 routes sub-resources of a key by that key", function()
        local view, key, is_point = parse("/views/latest-departure/keys/a%2Fb/windows?from=1")
        assert.equal(messages, view)
        assert.equal("a/b", key)
        assert.is_false(is_point)
        view, key, is_point = parse("/messages/k/changes")
        assert.equal(messages, view)
        assert.equal("k", key)
        assert.is_false(is_point)
        assert.is_true(select(3, parse("/messages/k")))
    end)

    it("6 takes raw key bytes as base64url, padded or not", function()
        assert_key(messages, "ab", "/messages/YWI?encoding=base64url")
        assert_key(messages, "ab", "/messages/YWI=?encoding=base64url")
        assert_key(messages, "ab", "/messages/YWI%3D?encoding=base64url")
        assert_key(messages, "abc", "/messages/YWJj?stale=allow&encoding=base64url")
        assert_key(messages, "\251\255\190", "/messages/-_--?encoding=base64url&x=1")
        assert_key(messages, "..", "/messages/Li4?encoding=base64url")
        assert_key(counts, "\0\0\0\42", "/views/counts/keys/AAAAKg?encoding=base64url")
    end)

    it("7 takes the empty key as base64url only", function()
        assert_key(messages, "", "/messages/?encoding=base64url")
        assert_key(messages, "", "/views/latest-departure/keys/?encoding=base64url")
        assert_no_key("/messages/")
        assert_no_key("/views/latest-departure/keys/")
    end)

    it("8 has no key for invalid base64url", function()
        assert_no_key("/messages/a?encoding=base64url")
        assert_no_key("/messages/ab.c?encoding=base64url")
        assert_no_key("/messages/ab+_?encoding=base64url")
        assert_no_key("/messages/YWI===?encoding=base64url")
        assert_no_key("/messages/YW=I?encoding=base64url")
        assert_no_key("/messages/" .. ("="):rep(32000) .. "x?encoding=base64url")
    end)

    it("9 ignores other arguments", function()
        assert_key(messages, "YWI", "/messages/YWI?encoding=text")
        assert_key(messages, "YWI", "/messages/YWI?xencoding=base64url")
        assert_key(messages, "YWI", "/messages/YWI?ENCODING=base64url")
        assert_key(messages, "YWI", "/messages/YWI?x=encoding=base64url")
    end)

    it("9a parses the encoding as backends do", function()
        assert_key(messages, "ab", "/messages/YWI?encoding=base64ur%6c")
        assert_key(messages, "ab", "/messages/YWI?%65ncoding=base64url")
        assert_key(messages, "ab", "/messages/YWI?&&encoding=%62%61%73%65%36%34%75%72%6C&")
        assert_key(messages, "ab", "/messages/YWI?%65%6e%63%6f%64%69%6e%67=base64url&x")
        assert_key(messages, "YWI", "/messages/YWI?encoding=%74ext")
    end)

    it("9b has no key if backends reject the encoding", function()
        for _, arguments in ipairs {
            "encoding=base64urlx", "encoding=", "encoding", "encoding=BASE64URL", "encoding=base64",
            "encoding=base64url&encoding=base64url", "encoding=text&%65ncoding=base64url",
            "encoding=base64url;x=1", "encoding=+base64url", "encoding=base64ur%256c",
            "encoding=" .. ("%62"):rep(10000),
        } do
            assert_no_key("/messages/YWI?" .. arguments)
        end
    end)

    it("9c has no key if it is longer than backends accept", function()
        assert_key(messages, ("k"):rep(8192), "/messages/" .. ("k"):rep(8192))
        assert_key(messages, ("k"):rep(8192), "/messages/" .. ("%6b"):rep(8192))
        assert_key(messages, ("\0"):rep(8192),
                   "/messages/" .. ("A"):rep(10923) .. "?encoding=base64url")
        assert_no_key("/messages/" .. ("k"):rep(8193))
        assert_no_key("/messages/" .. ("%6b"):rep(8193))
        assert_no_key("/messages/" .. ("A"):rep(10924) .. "?encoding=base64url")
    end)

    it("9d has no key for ambiguous bytes", function()
        for _, uri in ipairs {
            "/messages/日本", "/messages/a\127b", "/messages/a b", "/messages/a\1", "/messages/a#b",
            "/messages/k?stale=\255", "messages/k", "",
        } do
            assert_no_key(uri)
            local _, plain = query.plain_key(uri, VIEWS)
            assert.is_nil(plain, uri)
        end
    end)

    it("9e has the same key for a plain read", function()
        for _, case in ipairs {
            { "/a/texts/N1", texts, "N1" },
            { "/views/texts/keys/a'~!$&()*+,;=:@[]{}|^`.-_", texts, "a'~!$&()*+,;=:@[]{}|^`.-_" },
            { "/a/texts/a%20b", texts, "a b" },
            { "/a/texts/%C3%A9%7F%2F", texts, "é\127/" },
            { "/a/te%78ts/ab", texts, "ab" },
            { "/messages/N1", messages, "N1" },
            { "/views/counts/keys/42", counts, "\0\0\0\42" },
            { "/views/counts/keys/%34%32", counts, "\0\0\0\42" },
            { "/views/na%C3%AFve%20view/keys/%0A%22", odd, '\n"' },
            { "/a/b", counts, nil },
            { "/views/counts/keys/many", counts, nil },
            { "/a/b/k", deep, "k" },
            { "/a/texts/" .. ("k"):rep(8192), texts, ("k"):rep(8192) },
        } do
            local uri, view, key = unpack(case, 1, 3)
            local found, found_key = query.plain_key(uri, VIEWS)
            assert.equal(key, found_key, uri)
            if key then
                assert.equal(view, found, uri)
                assert_key(view, key, uri)
            end
        end
    end)

    it("9f has no key if the read is not plain", function()
        for _, uri in ipairs {
            "/a/texts/a?", "/a/texts/a?stale=never", "/a/texts/a/b", "/a/texts/a/changes",
            "/a/texts/", "/a/texts", "/", "", "/a/texts/a\"b", "/a/texts/a\\b", "/a/texts/%zz",
            "/a/texts/" .. ("k"):rep(8193), "/unknown/a", "/views/none/keys/a",
            "/views/na%C3%AFve%20view/keys/a%00",
            -- text that JSON escapes
            "/a/texts/%22", "/a/texts/a%5Cb", "/a/texts/%0a", "/a/texts/%1F", "/a/texts/a%00",
        } do
            local _, key = query.plain_key(uri, VIEWS)
            assert.is_nil(key, uri)
        end
    end)

    it("10 encodes the key in the view's format", function()
        assert_key(counts, "\0\0\0\42", "/views/counts/keys/42")
        assert_key(counts, nil, "/views/counts/keys/many")
    end)

    it("10a takes keys of other formats as base64url only", function()
        local other = { name = "other", encode_key = key_codec.codec("protobuf") }
        local views = {
            by_name = { other = other }, by_path = {}, path_depth = 1, longest_name = 5,
            max_key_bytes = 100,
        }
        assert.same({ other, nil, true }, { query.parse("/views/other/keys/YWI", views) })
        assert.same({ other, "ab", true },
            { query.parse("/views/other/keys/YWI?encoding=base64url", views) })
    end)

    it("11 finds no view if the path names none", function()
        for _, request_uri in ipairs {
            "/", "/messages", "/views", "/views/", "/views/latest-departure", "/processors",
            "/views/latest-departure/keys", "/views/latest-departure/keys?limit=5", "/health/ready",
            "/views/latest-departure/batch", "/views/other/keys/k", "/views/counts/top/k",
            "/other/k", "//messages/k", "/messages%2Fk", "/views%2Fcounts/keys/1", "*",
            "/a%2Fb/k", "/%2Fmessages/k",
        } do
            local view, key = parse(request_uri)
            assert.is_nil(view, request_uri)
            assert.is_nil(key, request_uri)
        end
    end)

    it("12 prefers the longest short path", function()
        assert_key(deep, "k", "/a/b/k")
        assert_key(counts, "\0\0\0\1", "/a/1")
        assert_key(counts, "\0\0\0\1", "/a/1/windows")
    end)

    it("13 keeps empty parts apart", function()
        assert_no_key("/messages//k")
        assert_no_key("/views//keys/k")
    end)
end)

local function with(more)
    local headers = {
        host = "localhost:8080",
        ["user-agent"] = "curl/7.88.1",
        accept = "*/*",
        ["x-forwarded-proto"] = "https",
        ["x-empty"] = "",
    }
    for name, value in pairs(more) do
        headers[name] = value
    end
    return headers
end

describe("a path", function()
    it("climbs if a part of it is two dots", function()
        for _, uri in ipairs {
            "/words/../metrics", "/words/..%2Finternal%2Fx", "/words/%2e%2E/a", "/words/..", "/..",
            "/words/a%2f.%2e?x", "/../?",
        } do
            assert.is_true(query.climbs(uri), uri)
        end
        for _, uri in ipairs {
            "/words/.", "/words/...", "/words/a..", "/words/..a", "/words/%252E%252E/a",
            "/metrics?../", "/words/a?x=/../", "/", "", "?",
        } do
            assert.is_false(query.climbs(uri), uri)
        end
    end)
end)

describe("the view of a request without a key", function()
    local words = { name = "words" }
    local views = { by_name = { words = words }, by_path = {}, path_depth = 1, longest_name = 5 }

    it("is in its path", function()
        for _, uri in ipairs {
            "/views/words/keys", "/views/words/count?exact=true", "/views/%77ords/batch",
            "/%76iews/words/keys", "/views/words/", "/api/v1/kv/words", "/api/v1/kv/words/count",
            "/api/v1/kv/words/values/a?x", "/api/v1/window/words/a",
        } do
            assert.equals(words, query.view_of(uri, views), uri)
        end
    end)

    it("is missing in others", function()
        for _, uri in ipairs {
            "/", "//", "/views", "/views/", "/views/words", "/views/other/keys", "/words/a",
            "/views//words/keys", "/views/wo%2Frds/keys", "/api", "/api/v1", "/api/v1/kv",
            "/api/v1/kv/", "/api/v1/kv/other", "/api/v2/kv/words", "*", "",
            "/views/" .. ("w"):rep(30000) .. "/keys",
        } do
            assert.is_nil(query.view_of(uri, views), uri)
        end
    end)
end)

describe("plain headers", function()
    it("1 are those of ordinary clients", function()
        assert.equal("", query.plain_token(with {}))
        assert.equal("", query.plain_token(with { ["x-long"] = ("x"):rep(7000) }))
    end)

    it("2 are not those that a backend might reject", function()
        for _, more in ipairs {
            { accept = { "*/*", "text/plain" } },
            { ["x-a"] = { "1", "2" } },
            { ["x-a"] = "a\1b" },
            { ["x-a"] = "a\127b" },
            { ["x-a"] = "\255" },
            { ["x-a"] = "a\tb" },
            { ["x-a"] = ("x"):rep(8000) },
            { [("x"):rep(8000)] = "1" },
            { ["x-forwarded-ssl"] = "on" },
            { ["x-forwarded-protocol"] = "ssl" },
        } do
            assert.is_nil(query.plain_token(with(more)))
        end
    end)

    it("2a are not those whose headers change the answer", function()
        for _, name in ipairs {
            "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "range",
            "if-range", "content-length", "transfer-encoding", "expect", "origin",
        } do
            assert.is_nil(query.plain_token(with { [name] = "1" }), name)
        end
        assert.is_nil(query.plain_token(with { accept = "text/html" }))
        assert.is_nil(query.plain_token(with { ["sec-fetch-site"] = "none, cross-site" }))
        for _, accept in ipairs { "", "*/*", "application/json" } do
            assert.equal("", query.plain_token(with { accept = accept }))
        end
        assert.equal("", query.plain_token(with { ["sec-fetch-site"] = "same-origin" }))
    end)

    local function token(value)
        return query.plain_token(with { authorization = value })
    end

    it("3 have at most one bearer token", function()
        local long = ("t"):rep(7900)
        for _ = 1, 2 do
            assert.equal("eyJ.e30.x-_", token("Bearer eyJ.e30.x-_"))
            assert.equal("a+/~.9==", token("bEARER   a+/~.9=="))
            assert.equal(long, token("Bearer " .. long))
        end
        for _, value in ipairs {
            "", "Bearer", "Bearer ", "Bearer =", "Bearer a b", "Bearer a,b", "Bearer a ",
            " Bearer a", "Bearer a=b", "Bearer a\n", "Bearer\ta", "Bearer \255", "Basic eDp5",
            "Bearera", "token:a",
            { "Bearer a", "Bearer a" }, "Bearer " .. ("t"):rep(8000),
        } do
            assert.is_nil(token(value))
        end
    end)

    it("4 are recognised for many tokens", function()
        for number = 1, 2000 do
            local expected = number .. ("t"):rep(4000)
            assert.equal(expected, token("Bearer " .. expected))
        end
        assert.equal("a", token("Bearer a"))
    end)
end)
