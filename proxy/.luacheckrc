-- luacheck --config proxy/.luacheckrc proxy tests/unit/proxy tests/support/lua
std = "ngx_lua"
max_line_length = 100
files["tests/unit/proxy"] = { std = "+busted" }
