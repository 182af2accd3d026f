-- KEYS: the bucket. ARGV: its longest window, then ID and instant of each event.
local key, keep, now = KEYS[1], tonumber(ARGV[1]), clock()
local cutoff = now - keep
for a = 2, #ARGV, 2 do
  local id, at = ARGV[a], tonumber(ARGV[a + 1])
  local known = tonumber(redis.call('ZSCORE', key, id))
  local free = not known or (known <= cutoff and known >= -now) -- neither counted nor refunded
  if free and at > cutoff then
    redis.call('ZADD', key, int(at), id)
  end
end
settle(key, keep)
return 1
