--- Signs what standard input describes, one request or claim a line: fields in hex, separated by
-- spaces. A claim has three.

local signing = require "proxy.security.signing"

local function from_hex(text)
    return (text:gsub("%x%x", function(byte)
        return string.char(tonumber(byte, 16))
    end))
end

io.stdout:setvbuf("no")
for line in io.lines() do
    local fields = {}
    for field in (line .. " "):gmatch("(%x*) ") do
        fields[#fields + 1] = from_hex(field)
    end
    local secret, method, target, at, nonce, receiver, body = unpack(fields)
    if at then
        local key = signing.key_of(secret)
        print(signing.signature(key, method, target, tonumber(at), nonce, receiver, body))
    else
        local client, time = method, target
        print(signing.signed_claim(signing.claim_key_of(secret), client, tonumber(time)))
    end
end
