--- The values of the labels `route` and `role`: few, and the same as in the backends' metrics
-- (`Route.label` of backend/http/route_table.py). Pure.

local find, match, sub = string.find, string.match, string.sub

local _M = {}

--- The route of point reads.
_M.KEY = "key"

local BELOW_KEY = {
    windows = "key/windows", sessions = "key/sessions", versions = "key/versions",
    changes = "key/changes",
}

--- The routes that read the history of a key. The changes of a key are not among them: they are a
-- stream.
_M.IS_HISTORY = { ["key/windows"] = true, ["key/sessions"] = true, ["key/versions"] = true }

local function set(...)
    local names = {}
    for _, name in ipairs { ... } do
        names[name] = name
    end
    return names
end

local OF_VIEW = set("keys", "windows", "sessions", "count", "top", "aggregate", "batch", "query",
                    "search", "versions", "switch", "rollback", "drop", "pipeline")
local PAGES = set("views", "health", "metrics", "processors", "instance", "admin", "api", "proxy",
                  "sql")
PAGES["openapi.json"] = "openapi"

local ROLES = set("active", "standby", "warming")
local SEVERAL = "several"

-- by the value of Served-By: a deployment has few
local MAX_CACHED = 1000
local cached, cached_count = {}, 0

local function path_of(uri)
    local question = find(uri, "?", 1, true)
    return question and sub(uri, 1, question - 1) or uri
end

--- The route of a path that has something after a key.
function _M.below_key(uri)
    return BELOW_KEY[match(path_of(uri), "/([a-z]+)$") or ""] or "key/rest"
end

--- The route of a path without a key.
function _M.route(uri)
    local path = path_of(uri)
    local first = match(path, "^/([a-z.]+)")
    if first == "views" then
        local rest = match(path, "^/views/[^/]+/([a-z]+)$")
        if rest then
            return OF_VIEW[rest] or "other"
        end
        if match(path, "^/views/[^/]+/by/[^/]+/[^/]+$") then
            return "by"
        end
        return find(path, "/", 8, true) and "other" or "views"
    end
    if first == "topics" then
        return "append"
    end
    return PAGES[first] or "other"
end

local function parse_role(served_by)
    local only_role
    for element in served_by:gmatch("[^,]+") do
        local role = ROLES[match(element, "; (%a+)$") or ""] or ""
        if only_role and only_role ~= role then
            return SEVERAL
        end
        only_role = role
    end
    return only_role or ""
end

--- The role of the replicas that have answered; "" without `Served-By`.
function _M.role(served_by)
    if not served_by or served_by == "" then
        return ""
    end
    local role = cached[served_by]
    if not role then
        if cached_count >= MAX_CACHED then
            cached, cached_count = {}, 0
        end
        role = parse_role(served_by)
        cached[served_by], cached_count = role, cached_count + 1
    end
    return role
end

return _M
