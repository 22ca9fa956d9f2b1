--- SHA-256, HMAC-SHA256 and random bytes, by the OpenSSL that nginx is linked with.
--
-- Contexts are copied from prepared ones: OpenSSL 3 looks an algorithm up each time that a context
-- is initialised, and by each call of HMAC(), which costs more than the hash of a short text.

local ffi = require "ffi"

local _M = {}

ffi.cdef [[
const void *EVP_sha256(void);
void *EVP_MD_CTX_new(void);
void EVP_MD_CTX_free(void *context);
int EVP_DigestInit_ex(void *context, const void *type, void *engine);
int EVP_DigestUpdate(void *context, const void *bytes, size_t size);
int EVP_DigestFinal_ex(void *context, unsigned char *result, unsigned int *size);
int EVP_MD_CTX_copy_ex(void *to, const void *from);
int RAND_bytes(unsigned char *result, int bytes);
]]

local BYTES, BLOCK_BYTES = 32, 64
local DIGITS = ffi.new("char[16]", "0123456789abcdef")

local result = ffi.new("unsigned char[?]", BYTES)
local hex = ffi.new("char[?]", 2 * BYTES)

-- set at the first use; `blank` and `context` are contexts of OpenSSL, and `blank` has hashed
-- nothing
local openssl, blank, context

local function new_context()
    return ffi.gc(assert(openssl.EVP_MD_CTX_new()), openssl.EVP_MD_CTX_free)
end

--- OpenSSL's functions, in the program itself or in the library that it has loaded.
local function load_openssl()
    local is_in_program = pcall(function()
        return ffi.C.EVP_MD_CTX_copy_ex
    end)
    openssl = is_in_program and ffi.C or ffi.load("libcrypto.so.3")
    blank, context = new_context(), new_context()
    local done = openssl.EVP_DigestInit_ex(blank, openssl.EVP_sha256(), nil)
    assert(done == 1, "OpenSSL has no SHA-256")
end

--- Writes into `result` the hash of what a prepared context has hashed, followed by these bytes.
local function digest(prepared, bytes, size)
    openssl.EVP_MD_CTX_copy_ex(context, prepared)
    openssl.EVP_DigestUpdate(context, bytes, size)
    openssl.EVP_DigestFinal_ex(context, result, nil)
end

--- The first `size` bytes of `result`, in hex.
local function in_hex(size)
    for i = 0, size - 1 do
        local byte = result[i]
        hex[2 * i] = DIGITS[bit.rshift(byte, 4)]
        hex[2 * i + 1] = DIGITS[bit.band(byte, 15)]
    end
    return ffi.string(hex, 2 * size)
end

--- The hash of a text, in hex.
function _M.hash(text)
    if not openssl then
        load_openssl()
    end
    digest(blank, text, #text)
    return in_hex(BYTES)
end

--- A context that has hashed the padded key (RFC 2104).
local function padded(key, byte)
    local block = ffi.new("unsigned char[?]", BLOCK_BYTES, byte)
    for i = 1, #key do
        block[i - 1] = bit.bxor(key:byte(i), byte)
    end
    local prepared = new_context()
    openssl.EVP_MD_CTX_copy_ex(prepared, blank)
    openssl.EVP_DigestUpdate(prepared, block, BLOCK_BYTES)
    return prepared
end

--- A key for `mac`.
function _M.key(text)
    if not openssl then
        load_openssl()
    end
    if #text > BLOCK_BYTES then
        digest(blank, text, #text)
        text = ffi.string(result, BYTES)
    end
    return { inner = padded(text, 0x36), outer = padded(text, 0x5c) }
end

local function mac(key, text)
    digest(key.inner, text, #text)
    digest(key.outer, result, BYTES)
end

--- The HMAC of a text, as bytes.
function _M.mac(key, text)
    mac(key, text)
    return ffi.string(result, BYTES)
end

--- The HMAC of a text, in hex; if `size` is given, of its first bytes only.
function _M.mac_hex(key, text, size)
    mac(key, text)
    return in_hex(size or BYTES)
end

--- Returns `size` random bytes, at most 32, in hex.
function _M.random_hex(size)
    if not openssl then
        load_openssl()
    end
    assert(openssl.RAND_bytes(result, size) == 1, "no random bytes")
    return in_hex(size)
end

return _M
