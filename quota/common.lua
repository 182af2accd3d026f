-- Functions for all scripts. Instants and windows are in µs. They are whole and below 2^53, so that
-- a double holds them exactly.
--
-- A bucket is one sorted set. Its members and their scores:
--   a counted ID             the instant of its event
--   the tombstone of an ID   minus the instant at which the tombstone ends: below 0, so it never counts
-- The tombstone of the empty ID, which no event has, is the mark of a reset.

local call, RESET_MARK = redis.call, ''

-- Returns the digits of a whole number. redis.call would print the number as a double, slowly;
-- Lua's tostring rounds to 14 digits.
local function whole(n)
  return string.format('%.0f', n) -- not %d, which has 32 bits on some machines
end

-- Removes the events older than keep and the tombstones that have ended.
local function prune(key, keep, now)
  call('ZREMRANGEBYSCORE', key, whole(-now), whole(now - keep))
end

-- Makes a key expire at the instant till, unless its expiry is later already. One command is nearly
-- always enough: a new key has no expiry, and an old key has an earlier one.
local function extend(key, till, new)
  till = whole(math.ceil(till / 1000))
  if call('PEXPIREAT', key, till, new and 'NX' or 'GT') == 0 then
    call('PEXPIREAT', key, till, new and 'GT' or 'NX')
  end
end

-- Sets a key's expiry to the end of its last member: the end of a tombstone, or keep after an
-- event. It makes the expiry earlier only if the key has only tombstones.
local function expire(key, keep)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if not first then
    return -- no key
  end
  local newest, last = tonumber(call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')[2]), -tonumber(first)
  if newest >= 0 then
    extend(key, math.max(newest + keep, last))
  else
    call('PEXPIREAT', key, math.ceil(last / 1000))
  end
end

-- Moves the events in the future to now; newest is the instant of the latest one. Such events exist
-- if the clock was set back. The expiry moves back by as much as the newest event, but not to
-- before the tombstones end.
local function clamp_to_now(key, newest, now)
  for _, id in ipairs(call('ZRANGE', key, '(' .. whole(now), '+inf', 'BYSCORE')) do
    call('ZADD', key, whole(now), id)
  end
  call('PEXPIREAT', key, whole(call('PEXPIRETIME', key) - math.floor((newest - now) / 1000)))
  expire(key, 0)
end

-- Replaces an ID's event by a tombstone that ends at till.
local function put_tombstone(key, id, till)
  call('ZADD', key, -till, id)
  expire(key, 0)
end
