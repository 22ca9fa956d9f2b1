-- luacheck --config proxy/.luacheckrc proxy tests/proxy
std = "ngx_lua"
max_line_length = 100
files["tests/proxy"] = { std = "+busted" }
