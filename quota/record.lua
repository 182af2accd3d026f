-- KEYS: the bucket. ARGV: for how long it keeps events; the life for which it is marked as having all of them, 0 for none; for how
-- long it is in doubt once it lacked one, 0 for never; then the ID and the instant of each event.
local key, keep, marked, settle, now = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, clock()
prune(key, keep, now)
local had, lacked = settle == 0, false
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
if lacked and settle > 0 then
  call('ZADD', key, doubtful - now - settle, '')
elseif marked > 0 and had and (settle == 0 or not in_doubt(key, now)) then -- the mark of a life that has ended says nothing
  call('ZADD', key, lowest - marked * span - math.floor(keep / 1000000), '')
  extend(key, now + keep)
end
expire(key, keep)
return 1
