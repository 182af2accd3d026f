-- The one clock that decides: this server's, in µs since 1970 (QUOTA-2). Whole and below 2^53, so a double is exact.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
