-- Adds events to a bucket by their ages. Of an ID that the bucket counts, the later instant stays.
-- It skips refunded IDs, and what is too old to count or from before a reset.
--
-- KEYS: the bucket. ARGV: how long it keeps events; how long before its end the mark of a reset
-- lets events in; then of each event the ID, the age and the instant of the age, 0 for now.
local key, keep, now = KEYS[1], ARGV[1] + 0, clock()
local newest = tonumber(call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')[2])
if newest and newest > now then
  clamp_to_now(key, newest, now)
end
prune(key, keep, now)
local after, mark = now - keep, tonumber(call('ZSCORE', key, RESET_MARK))
if mark then
  after = math.max(after, -mark - ARGV[2])
end
for a = 3, #ARGV, 3 do
  local id, at, as_of = ARGV[a], now - ARGV[a + 1], ARGV[a + 2] + 0
  if as_of > 0 then
    at = at - math.max(0, now - as_of)
  end
  local counted = tonumber(call('ZSCORE', key, id)) -- negative: refunded
  if at > after and (not counted or counted >= 0 and counted < at) then
    call('ZADD', key, whole(at), id)
  end
end
expire(key, keep)
return 1
