-- Adds events to a bucket, takes others out, and marks it as complete or in doubt.
--
-- KEYS: the bucket, and its family, unless the mapping is ''. ARGV: how long it keeps events; the epoch for which to mark it as complete, 0
-- for no mark; how long it is in doubt if it lacked an event, 0 for never; by how much its instant of an event may be later than the one
-- given here, 0 for any time; the instant up to which events that are not given here are taken out, 0 to take none out; the caller's
-- mapping; its clocks; how long a tombstone lasts; then the ID and the instant of each event.
local key, keep, epoch, doubt_for, skew, settled, now = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, clock()
local since, before = 0, 0
if KEYS[2] then
  since, before = claim(KEYS[2], ARGV[6], ARGV[7] + 0, keep, now)
end
local newest = tonumber(call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')[2])
if newest and newest > now then
  bring_back(key, newest, now)
end
prune(key, keep, now, call('ZSCORE', key, ''))
local had, lacked, given, foreign = doubt_for == 0, false, {}, false
for a = 9, #ARGV, 2 do
  local id, at = ARGV[a], math.min(tonumber(ARGV[a + 1]), now)
  local counted = tonumber(call('ZSCORE', key, id)) -- negative: refunded
  if counted and counted < 0 and at > -counted - ARGV[8] then
    counted = nil -- admitted again since
  end
  given[id] = true
  local moves = not counted or counted <= at or skew > 0 and counted - at > skew
  if at > now - keep and (counted or 0) >= 0 then
    had, lacked = had or counted, lacked or not counted
    if moves then
      call('ZADD', key, whole(at), id)
    end
  elseif moves and (counted or -1) >= 0 then
    call('ZREM', key, id)
  end
end
if settled > 0 then
  local events = call('ZRANGE', key, 0, '+inf', 'BYSCORE', 'WITHSCORES')
  for e = 1, #events, 2 do
    if not given[events[e]] and tonumber(events[e + 1]) > settled then
      foreign = true
    elseif not given[events[e]] then
      call('ZREM', key, events[e])
    end
  end
end
if lacked and doubt_for > 0 then
  call('ZADD', key, doubtful - now - doubt_for, '')
elseif epoch > 0 and had and not foreign and since <= now - doubt_for and (doubt_for == 0 or not in_doubt(key, now)) then
  epoch = (epoch - 1 + since - before) % epochs + 1 -- as if it were asked now; take.lua ignores a mark of another epoch
  call('ZADD', key, lowest - epoch * span - math.floor(keep / 1000000), '')
  extend(key, now + keep)
end
expire(key, keep)
return 1
