-- KEYS: the bucket. ARGV: its longest window; the life for which it is marked as complete, 0 for none; then ID and
-- instant of each event.
local key, keep, now = KEYS[1], tonumber(ARGV[1]), clock()
local cutoff = now - keep
call('ZREMRANGEBYSCORE', key, -now, cutoff) -- no Take drops what a bucket that is only looked at counts no more
shorten(key, keep)
for a = 3, #ARGV, 2 do
  local id, at = ARGV[a], tonumber(ARGV[a + 1])
  local had = call('ZSCORE', key, id) -- counted or refunded
  if not had and at > cutoff then
    call('ZADD', key, at, id)
  end
end
local marked = ARGV[2] + 0
if marked > 0 then -- of another life than the server's, a mark says nothing
  call('ZADD', key, lowest - marked * span - math.floor(keep / 1000000), '')
  outlive(key, now + keep)
end
settle(key, keep)
return 1
