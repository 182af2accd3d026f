-- Adds events to a bucket, and marks it as complete or in doubt.
--
-- KEYS: the bucket. ARGV: how long it keeps events; the epoch for which to mark it as complete, 0 for no mark; how long it is in
-- doubt if it lacked an event, 0 for never; then the ID and the instant of each event.
local key, keep, epoch, doubt_for, now = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, clock()
prune(key, keep, now, call('ZSCORE', key, ''))
local had, lacked = doubt_for == 0, false
for a = 4, #ARGV, 2 do
  local id, at = ARGV[a], tonumber(ARGV[a + 1])
  local counted = tonumber(call('ZSCORE', key, id)) -- negative: refunded
  if at > now - keep and (counted or 0) >= 0 then
    had, lacked = had or counted, lacked or not counted
    if (counted or at) <= at then
      call('ZADD', key, at, id)
    end
  end
end
if lacked and doubt_for > 0 then
  call('ZADD', key, doubtful - now - doubt_for, '')
elseif epoch > 0 and had and (doubt_for == 0 or not in_doubt(key, now)) then -- take.lua ignores a mark of another epoch
  call('ZADD', key, lowest - epoch * span - math.floor(keep / 1000000), '')
  extend(key, now + keep)
end
expire(key, keep)
return 1
