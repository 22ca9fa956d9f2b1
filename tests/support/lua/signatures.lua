--- Signs what standard input describes, one request, claim or batch a line: fields in hex,
-- separated by spaces. A claim has three, and a batch on a connection with a key has four.

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
    if at and not nonce then
        local signature, number, text = method, target, at
        local key = signing.derive_connection_key(signing.connections_key_of(secret), signature)
        print(signing.batch_signature(key, tonumber(number), text))
    elseif at then
        local key = signing.key_of(secret)
        print(signing.signature(key, method, target, tonumber(at), nonce, receiver, body))
    else
        local client, time = method, target
        print(signing.signed_claim(signing.claim_key_of(secret), client, tonumber(time)))
    end
end
