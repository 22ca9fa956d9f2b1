--- Which deployment of a service is current, if the backends belong to a service. Backends report
-- it in /processors, and learn it from a topic. The state with the highest revision is the newest.
-- The workers share it, and it outlives a reload.

local cjson = require "cjson.safe"
local settings = require "proxy.settings"

local _M = {}

local shared = ngx.shared.queryable_topics
local KEY = "service"

local is_configured = {}
for _, seed in ipairs(settings.seeds) do
    is_configured[seed.host .. ":" .. seed.port] = true
end

--- {name, current, revision}, where current is an application id; nil without a service.
function _M.known()
    return cjson.decode(shared:get(KEY) or "")
end

--- Takes over what a backend reports, if it is newer. reported: the member `service` of its
-- /processors, any value; application_id: that of the backend.
function _M.learn(reported, application_id)
    if type(reported) ~= "table" or type(reported.name) ~= "string"
        or type(reported.current) ~= "string" or type(reported.revision) ~= "number"
    then
        return
    end
    local known = _M.known()
    if known and known.name ~= reported.name then
        -- revisions of two services cannot be compared. The current deployment has the last word
        if application_id ~= known.current then
            return
        end
    elseif known and known.revision >= reported.revision then
        return
    end
    shared:set(KEY, cjson.encode {
        name = reported.name, current = reported.current, revision = reported.revision,
    })
    ngx.log(ngx.NOTICE, "service ", reported.name, ": deployment ", reported.current, " is current")
end

--- Whether the backend is an instance of another deployment, at the address of a former
-- instance. Without a service, only configured backends may lead to another deployment.
-- application_id: of the backend; used: the application id of the topology in use (any values).
function _M.is_stranger(backend, application_id, used)
    return type(used) == "string" and type(application_id) == "string"
        and used ~= application_id and not _M.known()
        and not is_configured[backend.host .. ":" .. backend.port]
end

--- Whether requests may go to the deployment with this application id (any value). Without a
-- service, they may go to every deployment.
function _M.is(application_id)
    local known = _M.known()
    return not known or known.current == application_id
end

return _M
