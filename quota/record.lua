-- KEYS: the bucket. ARGV: its longest window, then ID and instant of each event.
local key, keep, now = KEYS[1], tonumber(ARGV[1]), clock()
local cutoff = now - keep
call('ZREMRANGEBYSCORE', key, -now, cutoff) -- no Take drops what a bucket that is only looked at counts no more
for a = 2, #ARGV, 2 do
  local id, at = ARGV[a], tonumber(ARGV[a + 1])
  local had = call('ZSCORE', key, id) -- counted or refunded
  if not had and at > cutoff then
    call('ZADD', key, at, id)
  end
end
settle(key, keep)
return 1
