-- Returns the server's time in µs since 1970, which a double holds exactly.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
