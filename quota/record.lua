-- KEYS: the bucket. ARGV: for how long it keeps events; the life for which it is marked as having all of them, 0 for none;
-- then the ID and the instant of each event.
local key, keep, marked, now = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, clock()
prune(key, keep, now)
for a = 3, #ARGV, 2 do
  local id, at = ARGV[a], tonumber(ARGV[a + 1])
  local counted = tonumber(call('ZSCORE', key, id) or at) -- negative: refunded
  if at > now - keep and counted >= 0 and counted <= at then
    call('ZADD', key, at, id)
  end
end
if marked > 0 then -- the mark of a life that has ended says nothing
  call('ZADD', key, lowest - marked * span - math.floor(keep / 1000000), '')
  extend(key, now + keep)
end
expire(key, keep)
return 1
