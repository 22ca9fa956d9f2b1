--- Signs requests to backends with the cluster secret. backend/security/signatures.py describes the
-- header. Without a secret, requests are not signed.

local crypto = require "proxy.security.crypto"
local settings = require "proxy.settings"

local _M = {}

local MIN_BYTES, MAX_SECRETS, MAX_FILE_BYTES = 32, 2, 4096
-- characters of an HMAC in hex; and bytes of the HMAC of a batch on a connection with a key
local HMAC_SIZE, BATCH_HMAC_BYTES = 64, 16

-- the keys of the first secret, for requests, claims and connections; nil without one
local key, claim_key, connections_key
-- signed claims of this worker, by the client's address: kept for CLAIMS_S, and for at most
-- MAX_CLAIMS addresses
local CLAIMS_S, MAX_CLAIMS = 10, 1000
local claims, claims_count, claims_since = {}, 0, 0
-- the prefix of this worker's nonces, and the number of the last nonce
local worker, number = nil, 0

--- The key that is derived from a secret for this purpose.
local function derived(secret, purpose)
    return crypto.key(crypto.mac(crypto.key(secret), "queryable-topics " .. purpose))
end

--- The key that proxies sign with.
function _M.key_of(secret)
    return derived(secret, "proxy")
end

--- The value of the header. `at`: Unix time in ms; `receiver`: the id of an instance, or "*".
function _M.signature(signing_key, method, target, at, nonce, receiver, body)
    local body_hash = crypto.hash(body)
    local time = string.format("%.0f", at)
    local signed = table.concat({ method, target, time, nonce, body_hash, receiver }, "\n")
    return time .. ":" .. nonce .. ":" .. body_hash .. ":" .. crypto.mac_hex(signing_key, signed)
end

--- The key for connections.
function _M.connections_key_of(secret)
    return derived(secret, "connection")
end

--- The key of a connection on which a request with this signature was sent:
-- backend/security/connection_key.py describes it. `secret`: the key for connections.
function _M.derive_connection_key(secret, signature)
    return crypto.key(crypto.mac(secret, signature:sub(-HMAC_SIZE)))
end

--- The signature of the batch with this number, with the key of its connection.
function _M.batch_signature(connection, batch, body)
    return crypto.mac_hex(connection, batch .. "\n" .. body, BATCH_HMAC_BYTES)
end

--- The key for claims.
function _M.claim_key_of(secret)
    return derived(secret, "client")
end

--- The value of Queryable-Client: backend/security/client_claims.py describes it. `at`: as above.
function _M.signed_claim(signing_key, client, at)
    local time = string.format("%.0f", at)
    local signed = "client\n" .. client .. "\n" .. time
    return client .. ";" .. time .. ";" .. crypto.mac_hex(signing_key, signed)
end

--- The secrets in the text of the file; nil and the error, which never contains them.
function _M.parse(text)
    if #text > MAX_FILE_BYTES then
        return nil, "it has more than " .. MAX_FILE_BYTES .. " bytes"
    end
    local secrets = {}
    for line in (text .. "\n"):gmatch("([^\n]*)\n") do
        local secret = line:match("^%s*(.-)%s*$")
        if secret ~= "" then
            if #secret < MIN_BYTES then
                return nil, "a secret has " .. #secret .. " bytes; at least " .. MIN_BYTES
                    .. " are needed. Create one with: openssl rand -hex 32"
            end
            secrets[#secrets + 1] = secret
        end
    end
    if #secrets < 1 or #secrets > MAX_SECRETS then
        return nil, "it has " .. #secrets .. " secrets; one or two are allowed, one a line"
    end
    return secrets
end

--- Reads the secret. Call when nginx starts or reloads, while it may read the file.
function _M.load()
    local path = settings.cluster_secret_file
    if not path then
        key, claim_key, connections_key = nil, nil, nil
        return
    end
    local file, err = io.open(path, "rb")
    local text, secrets
    if file then
        text, err = file:read(MAX_FILE_BYTES + 1)
        file:close()
        if text or not err then
            secrets, err = _M.parse(text or "")
        end
    end
    if not secrets then
        error("QUERYABLE_CLUSTER_SECRET_FILE: " .. path .. ": " .. err, 0)
    end
    key, claim_key = _M.key_of(secrets[1]), _M.claim_key_of(secrets[1])
    connections_key = _M.connections_key_of(secrets[1])
end

--- The value of Queryable-Client for requests of a client; nil without a secret.
function _M.claim(client)
    if not claim_key then
        return nil
    end
    local now = ngx.now()
    if claims_count >= MAX_CLAIMS or math.abs(now - claims_since) >= CLAIMS_S then
        claims, claims_count, claims_since = {}, 0, now
    end
    local claim = claims[client]
    if not claim then
        claim = _M.signed_claim(claim_key, client, now * 1000)
        claims[client], claims_count = claim, claims_count + 1
    end
    return claim
end

--- The key of a connection: see derive_connection_key.
function _M.connection_key(signature)
    return _M.derive_connection_key(connections_key, signature)
end

--- The value of the header for a request to a backend; nil without a secret.
function _M.sign(method, target, receiver, body)
    if not key then
        return nil
    end
    if not worker then
        -- not in `load`: each worker needs its own
        worker = crypto.random_hex(8)
    end
    number = number + 1
    local nonce = worker .. string.format("%x", number)
    return _M.signature(key, method, target, ngx.now() * 1000, nonce, receiver, body)
end

return _M
