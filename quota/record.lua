-- Sets the instants of events in a bucket. It adds an event that is new to the bucket, and removes
-- one that is too old to count.
--
-- KEYS: the bucket. ARGV: how long it keeps events; how long a tombstone lasts; then the ID and the
-- instant of each event.
local key, keep, tombstone, now = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, clock()
local newest = tonumber(call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')[2])
if newest and newest > now then
  clamp_to_now(key, newest, now)
end
prune(key, keep, now)
for a = 3, #ARGV, 2 do
  local id, at = ARGV[a], math.min(tonumber(ARGV[a + 1]), now)
  local counted = tonumber(call('ZSCORE', key, id)) -- negative: refunded
  local refunded = counted and counted < 0 and at <= -counted - tombstone -- and not admitted again since
  if at > now - keep and not refunded then
    call('ZADD', key, whole(at), id)
  elseif counted and counted >= 0 then
    call('ZREM', key, id)
  end
end
expire(key, keep)
return 1
