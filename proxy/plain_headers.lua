--- Whether a read's headers leave no doubt that a backend answers it as if there were none. Pure.
-- A backend refuses some requests for their headers (too many, too long, control characters, a
-- header twice that may stand once). In a batch their headers do not reach it, so such a read goes
-- alone: its answer must not depend on what else is under way.

local find = string.find

local _M = {}

--- nginx gives up to so many; with more, the read goes alone. Backends read 100.
_M.MOST = 64

-- bytes of a header; backends read 8,190
local LONGEST = 8000

-- backends refuse those that contradict one another
local DOUBTFUL = { ["x-forwarded-ssl"] = true, ["x-forwarded-protocol"] = true }

--- headers: values by name in lower case, as ngx.req.get_headers gives them.
function _M.are_plain(headers)
    for name, value in pairs(headers) do
        -- a table: the header is there several times
        if type(value) ~= "string" or #name + #value > LONGEST or DOUBTFUL[name]
            or find(value, "[^ -~]")
        then
            return false
        end
    end
    return true
end

return _M
