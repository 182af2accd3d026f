-- Functions for all scripts. Instants and windows are in whole µs below 2^53, which a double holds
-- exactly.
--
-- A bucket is one sorted set. Its members and their scores:
--   a counted ID             the instant of its event
--   the tombstone of an ID   minus the instant at which the tombstone ends: below 0, so it never counts
-- The tombstone of the empty ID, which no event has, is the mark of a reset.

local call, RESET_MARK = redis.call, ''

-- Returns a whole number's digits. redis.call would print a double, slowly; tostring rounds to 14
-- digits.
local function whole(n)
  return string.format('%.0f', n) -- not %d, which has 32 bits on some machines
end

-- Removes the events older than keep and the tombstones that have ended.
local function prune(key, keep, now)
  call('ZREMRANGEBYSCORE', key, whole(-now), whole(now - keep))
end

-- Makes a key expire at till, unless it expires later anyway. One command is nearly always enough:
-- a new key has no expiry, and an old one an earlier one.
local function extend(key, till, new)
  till = whole(math.ceil(till / 1000))
  if call('PEXPIREAT', key, till, new and 'NX' or 'GT') == 0 then
    call('PEXPIREAT', key, till, new and 'GT' or 'NX')
  end
end

-- Makes a key expire with its last member: at the end of a tombstone, or keep after an event. It
-- moves the expiry back only if just tombstones are left.
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

-- Moves events in the future to now, which exist if the clock was set back; newest is the latest
-- one's instant. The expiry moves back as far, but not to before the tombstones end.
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
