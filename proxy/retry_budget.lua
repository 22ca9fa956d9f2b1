--- A token bucket for further attempts: they may be a tenth of the requests, in the long run.
-- When all backends are slow, trying again would double what they have to do. Pure.
--
-- Each request adds a tenth of a token, each further attempt takes a whole one. A backend that
-- hangs gathers readers for 0.4 s, who all go on to the next one: the more there are, the more
-- tokens have been earned before, up to a thousand. Counted in tenths, as whole numbers.

local ATTEMPT = 10
local AT_START, MOST = 100 * ATTEMPT, 1000 * ATTEMPT

local _M = {}

function _M.new()
    return { tenths = AT_START, denied = 0 }
end

function _M.earn(budget)
    if budget.tenths < MOST then
        budget.tenths = budget.tenths + 1
    end
end

--- Whether there is a token; it is left where it is.
function _M.has(budget)
    return budget.tenths >= ATTEMPT
end

--- Takes a token; false, and counted as denied, if there is none.
function _M.spend(budget)
    if budget.tenths < ATTEMPT then
        budget.denied = budget.denied + 1
        return false
    end
    budget.tenths = budget.tenths - ATTEMPT
    return true
end

function _M.tokens(budget)
    return budget.tenths / ATTEMPT
end

return _M
