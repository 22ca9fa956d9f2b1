--- nginx's own pages: its health and metrics. A client gets a page if its token has the scope.
-- Everyone gets /health/proxy.

local balance = require "proxy.balance"
local browser_rules = require "proxy.security.browser_rules"
local discovery = require "proxy.discovery"
local health = require "proxy.admin.health"
local metrics = require "proxy.metrics"
local page_access = require "proxy.security.page_access"
local problem = require "proxy.problem"
local targets = require "proxy.telemetry.targets"

local _M = {}

-- the rules until the topology is known
local NO_HOSTS = browser_rules.new()

-- an instance answers this page to those with the scope `metrics`
local METRICS = "/metrics/targets"

-- by path: `answer` is the function that answers; `like` is the page of instances that needs the
-- same scope, nil if everyone may see the page. An instance does not have /proxy/health, so any
-- scope is enough.
local PAGES = {
    ["/health/proxy"] = { answer = health.answer_status },
    ["/proxy/health"] = {
        answer = function() return health.answer(balance.unhealthy, balance.budget) end,
        like = "/proxy/health",
    },
    ["/proxy/metrics"] = { answer = metrics.answer, like = METRICS },
    ["/metrics"] = { answer = targets.refuse, like = METRICS },
    ["/metrics/targets"] = { answer = targets.answer, like = METRICS },
}

local function is_loopback(address)
    return address:sub(1, 4) == "127." or address == "::1" or address == "unix:"
end

--- Whether the client is on this machine. A proxy on another one may say 127.0.0.1, too.
local function is_on_this_machine(var)
    return is_loopback(var.remote_addr) and is_loopback(var.realip_remote_addr)
end

--- Answers a page while the topology is unknown. Then it is also unknown whether there is
-- authentication.
local function answer_unknown(page, var)
    if is_on_this_machine(var) then
        return page.answer()
    end
    return problem.send("no-topology")
end

--- The page of a path as the client has written it; nil if there is none.
function _M.find(uri)
    return PAGES[uri]
end

--- Ends the request for a page of `find`. var: ngx.var.
function _M.answer(page, var)
    local current = discovery.topology()
    local rules = current and current.browsers or NO_HOSTS
    local code = browser_rules.refuses(rules, var.http_host, var.http_origin,
                                       var.http_sec_fetch_site)
    if code then
        return problem.send(code)
    end
    if not page.like then
        return page.answer()
    end
    if not current then
        return answer_unknown(page, var)
    end
    local is_allowed, refusal = page_access.allows(current, page.like, var)
    if is_allowed then
        return page.answer()
    end
    if refusal then
        return page_access.refuse(refusal)
    end
    return problem.send("no-backend")
end

return _M
