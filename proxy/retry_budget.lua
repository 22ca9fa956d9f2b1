--- A token bucket that limits retries to a tenth of the requests in the long run: when all backends
-- are slow, retries would double their load. Pure.
--
-- Each request adds a tenth of a token, and each retry takes one. When a backend hangs, all reads
-- of the last 0.4 s are retried at about the same time. A busy worker has more tokens for this, up
-- to 1,000. Tokens are counted in tenths, as whole numbers.

local RETRY = 10
local INITIAL, MAX = 100 * RETRY, 1000 * RETRY

local _M = {}

function _M.new()
    return { tenths = INITIAL, denied = 0 }
end

function _M.earn(budget)
    if budget.tenths < MAX then
        budget.tenths = budget.tenths + 1
    end
end

--- Whether there is a token; does not take it.
function _M.has(budget)
    return budget.tenths >= RETRY
end

--- Counts a retry that was not made, because there was no token.
function _M.deny(budget)
    budget.denied = budget.denied + 1
end

--- Takes a token. Returns false, and counts the denial, if there is none.
function _M.spend(budget)
    if budget.tenths < RETRY then
        _M.deny(budget)
        return false
    end
    budget.tenths = budget.tenths - RETRY
    return true
end

function _M.tokens(budget)
    return budget.tenths / RETRY
end

return _M
