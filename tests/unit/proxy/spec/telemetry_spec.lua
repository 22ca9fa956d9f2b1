local buckets = require "proxy.telemetry.buckets"
local clock = require "proxy.telemetry.clock"
local labels = require "proxy.telemetry.labels"

describe("the buckets", function()
    it("1 contain their upper bound, as `le` says", function()
        for i, bound in ipairs(buckets.BOUNDS) do
            assert.equal(i, buckets.bucket_of(bound), bound)
            assert.equal(i + 1, buckets.bucket_of(bound * 1.00001), bound)
        end
    end)

    it("2 contain everything", function()
        assert.equal(1, buckets.bucket_of(0))
        assert.equal(1, buckets.bucket_of(-1))
        assert.equal(buckets.BUCKETS, buckets.bucket_of(3600))
        assert.equal(buckets.BUCKETS, #buckets.BOUNDS + 1)
    end)

    it("3 are less than 10 % apart", function()
        for i = 2, #buckets.BOUNDS do
            assert.is_true(buckets.BOUNDS[i] / buckets.BOUNDS[i - 1] < 1.1)
        end
    end)
end)

describe("the clock", function()
    it("4 has a resolution of microseconds", function()
        local began, last, steps = clock.now(), 0, 0
        while steps < 10 do
            local now = clock.now()
            steps = steps + (now > last and 1 or 0)
            last = now
        end
        assert.is_true(last - began < 0.001)
    end)
end)

describe("the time at which a request has begun", function()
    it("9 is earlier if nginx has learned of it some time ago", function()
        assert.is_true(math.abs(clock.now() - os.time()) < 2)
        assert.is_true(math.abs(clock.began(clock.now()) - clock.now()) < 0.001)
        local noted = clock.now() - 0.25
        assert.equal(noted + 0.0005, clock.began(noted))
    end)
end)

describe("the role", function()
    it("5 is that of Served-By", function()
        assert.equal("active", labels.role("b1; active"))
        assert.equal("standby", labels.role("b-2; standby"))
        assert.equal("active", labels.role("b1; active, b2; active"))
        assert.equal("several", labels.role("b1; active, b2; standby"))
        assert.equal("several", labels.role("b1; active, +3"))
        assert.equal("", labels.role("b1"))
        assert.equal("", labels.role("b1; somebody"))
        assert.equal("", labels.role(nil))
        assert.equal("", labels.role(""))
    end)

    it("6 is found again after many other values", function()
        for i = 1, 3000 do
            assert.equal("standby", labels.role("b" .. i .. "; standby"))
        end
        assert.equal("active", labels.role("b1; active"))
    end)
end)

describe("the route", function()
    it("7 is one of few for any path", function()
        for uri, route in pairs {
            ["/views/orders/count?stale=never"] = "count",
            ["/views/orders/keys"] = "keys",
            ["/views/orders/by/dest/ATL?limit=1"] = "by",
            ["/views/orders/by/dest"] = "other",
            ["/sql"] = "sql",
            ["/views/orders"] = "views",
            ["/views"] = "views",
            ["/views/orders/none"] = "other",
            ["/views/orders/keys/a/b/c"] = "other",
            ["/topics/orders/records"] = "append",
            ["/openapi.json"] = "openapi",
            ["/health/ready"] = "health",
            ["/internal/reads"] = "other",
            ["/wp-login.php"] = "other",
            ["/"] = "other",
            [""] = "other",
        } do
            assert.equal(route, labels.route(uri), uri)
        end
    end)

    it("8 of a path below a key is one of few", function()
        assert.equal("key/windows", labels.below_key("/orders/a/windows?limit=3"))
        assert.equal("key/changes", labels.below_key("/views/orders/keys/a/changes"))
        assert.equal("key/rest", labels.below_key("/orders/a/b/c"))
        assert.equal("key/rest", labels.below_key("/orders/a/WINDOWS"))
    end)
end)
