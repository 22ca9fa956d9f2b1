--- Signs requests to backends with the cluster secret. backend/security/signatures.py describes the
-- header. Without a secret, requests are not signed.
-- HMAC and SHA-256 are those of OpenSSL, which nginx is linked with.

local ffi = require "ffi"
local settings = require "proxy.settings"

local _M = {}

ffi.cdef [[
const void *EVP_sha256(void);
unsigned char *HMAC(const void *type, const void *key, int key_bytes, const unsigned char *text,
                    size_t bytes, unsigned char *result, unsigned int *result_bytes);
unsigned char *SHA256(const unsigned char *text, size_t bytes, unsigned char *result);
int RAND_bytes(unsigned char *result, int bytes);
]]

local MIN_BYTES, MAX_SECRETS, MAX_FILE_BYTES = 32, 2, 4096
local HASH_BYTES = 32

local crypto
local sha256
local result = ffi.new("unsigned char[?]", HASH_BYTES)
local hex = ffi.new("char[?]", 2 * HASH_BYTES)
local DIGITS = ffi.new("char[16]", "0123456789abcdef")

-- the keys of the first secret, for requests and for claims; nil without one
local key, claim_key
-- signed claims of this worker, by address: for some seconds, and for so many addresses
local CLAIMS_S, MAX_CLAIMS = 10, 1000
local claims, claims_count, claims_since = {}, 0, 0
-- of this worker
local worker, number = nil, 0

--- OpenSSL's functions, in the program itself or in the library that it has loaded.
local function load_crypto()
    local found = pcall(function()
        return ffi.C.HMAC, ffi.C.SHA256, ffi.C.EVP_sha256, ffi.C.RAND_bytes
    end)
    crypto = found and ffi.C or ffi.load("libcrypto.so.3")
    sha256 = crypto.EVP_sha256()
end

--- The first `bytes` bytes of `result` in hex.
local function in_hex(bytes)
    for i = 0, bytes - 1 do
        local byte = result[i]
        hex[2 * i] = DIGITS[bit.rshift(byte, 4)]
        hex[2 * i + 1] = DIGITS[bit.band(byte, 15)]
    end
    return ffi.string(hex, 2 * bytes)
end

local function hmac(of, text)
    crypto.HMAC(sha256, of, #of, text, #text, result, nil)
end

--- The key that proxies sign with.
function _M.key_of(secret)
    if not crypto then
        load_crypto()
    end
    hmac(secret, "queryable-topics proxy")
    return ffi.string(result, HASH_BYTES)
end

--- The value of the header. `at`: Unix time in ms; `receiver`: the id of an instance, or "*".
function _M.signature(of, method, target, at, nonce, receiver, body)
    crypto.SHA256(body, #body, result)
    local body_hash = in_hex(HASH_BYTES)
    local time = string.format("%.0f", at)
    hmac(of, table.concat({ method, target, time, nonce, body_hash, receiver }, "\n"))
    return time .. ":" .. nonce .. ":" .. body_hash .. ":" .. in_hex(HASH_BYTES)
end

--- The key for claims.
function _M.claim_key_of(secret)
    if not crypto then
        load_crypto()
    end
    hmac(secret, "queryable-topics client")
    return ffi.string(result, HASH_BYTES)
end

--- The value of Queryable-Client: backend/security/client_claims.py describes it. `at`: as above.
function _M.signed_claim(of, client, at)
    local time = string.format("%.0f", at)
    hmac(of, "client\n" .. client .. "\n" .. time)
    return client .. ";" .. time .. ";" .. in_hex(HASH_BYTES)
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
        key, claim_key = nil, nil
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
end

--- The value of Queryable-Client for requests of a client; nil without a secret.
function _M.claim(client)
    if not claim_key then
        return nil
    end
    local now = ngx.now()
    if claims_count >= MAX_CLAIMS or now >= claims_since + CLAIMS_S then
        claims, claims_count, claims_since = {}, 0, now
    end
    local claim = claims[client]
    if not claim then
        claim = _M.signed_claim(claim_key, client, now * 1000)
        claims[client], claims_count = claim, claims_count + 1
    end
    return claim
end

--- The value of the header for a request to a backend; nil without a secret.
function _M.sign(method, target, receiver, body)
    if not key then
        return nil
    end
    if not worker then
        -- not in `load`: each worker needs its own
        assert(crypto.RAND_bytes(result, 8) == 1, "no random bytes")
        worker = in_hex(8)
    end
    number = number + 1
    local nonce = worker .. string.format("%x", number)
    return _M.signature(key, method, target, ngx.now() * 1000, nonce, receiver, body)
end

return _M
