-- KEYS: the bucket. ARGV: its longest window, then ID and instant of each event.
local key, keep, now = KEYS[1], tonumber(ARGV[1]), clock()
local cutoff = now - keep
for a = 2, #ARGV, 2 do
  local id, at = ARGV[a], tonumber(ARGV[a + 1])
  local had = tonumber(call('ZSCORE', key, id))
  local free = not had or (had <= cutoff and had >= -now) -- neither counted nor refunded
  if free and at > cutoff then
    call('ZADD', key, at, id)
  end
end
settle(key, keep)
return 1
