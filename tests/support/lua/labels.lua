-- Prints the bounds of the proxy's histograms, and then the label of each path that it reads.
--   luajit tests/support/lua/labels.lua < paths

package.path = "./?.lua;" .. package.path

local buckets = require "proxy.telemetry.buckets"
local labels = require "proxy.telemetry.labels"

print(table.concat(buckets.TEXTS, " "))
for path in io.lines() do
    local key_path = path:match("^/orders/.")
    local is_point = key_path and not path:find("/", 9, true)
    print(is_point and labels.KEY or key_path and labels.below_key(path) or labels.route(path))
end
