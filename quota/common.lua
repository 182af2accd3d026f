-- Functions for all scripts. Instants and windows are in µs. All are whole and below 2^53, so that a double is exact.
--
-- A bucket is one sorted set. Its members and their scores:
--   a counted ID             the instant of its event
--   the tombstone of an ID   minus the instant at which the tombstone ends: below 0, so it never counts
--   '', the mark             below all tombstones. Either lowest - epoch * span - seconds: in this epoch of the server, the bucket
--                            has all events of the last so many seconds. Or doubtful - instant: the bucket lacked an event of
--                            the log, and must not be marked as complete before that instant.

local call = redis.call
local lowest, span, epochs = -2 ^ 52, 2 ^ 22, 2 ^ 28 - 1
local doubtful = lowest - 2 ^ 50 -- below the marks of all epochs

-- Returns the digits of a whole number. redis.call would print it as a double, slowly; Lua's tostring rounds to 14 digits.
local function whole(n)
  return string.format('%.0f', n) -- not %d, which has 32 bits on some machines
end

-- Returns the epoch and the seconds of a mark with this score; 0 and 0 without a mark or in doubt.
local function read_mark(score)
  local below = lowest - (tonumber(score) or lowest)
  if below >= lowest - doubtful then
    return 0, 0
  end
  return math.floor(below / span), below % span
end

-- Reports whether the bucket must not be marked as complete yet.
local function in_doubt(key, now)
  return doubtful - (call('ZSCORE', key, '') or 0) > now
end

-- Returns the epoch of this server, at least 1: its replication ID, which changes when it starts and when it is promoted, plus a number:
-- of the clocks, or since when a family is divided as it is. If the user may not run INFO, only the number changes the epoch.
local replid
local function server_epoch(number)
  if not replid then
    local info, name = redis.pcall('INFO', 'replication'), 'master_replid:'
    local _, last = string.find(type(info) == 'string' and info or '', name, 1, true)
    replid = last and tonumber(string.sub(info, last + 1, last + 7), 16) or 0
  end
  return (replid + number) % epochs + 1
end

-- Reports whether two numbers of clocks, or two epochs, are the same. They may differ by two, since each process measures the
-- clocks by itself.
local function same(a, b)
  local apart = (a - b) % epochs
  return math.min(apart, epochs - apart) <= 2
end

-- Reports whether a mark with this score holds for a number, with at least so many seconds.
local function complete(score, number, least)
  local marked, seconds = read_mark(score)
  return marked > 0 and seconds >= least and same(marked, server_epoch(number))
end

-- Removes the events older than keep, the tombstones that have ended, and the mark with this score if it is of more seconds than keep.
local function prune(key, keep, now, mark)
  call('ZREMRANGEBYSCORE', key, whole(-now), whole(now - keep))
  local _, seconds = read_mark(mark)
  if seconds > keep / 1000000 then
    call('ZREM', key, '')
  end
end

-- Makes a key expire at this instant, unless it expires later already. One command is nearly always enough: a new key has no expiry,
-- and an old one has an earlier expiry.
local function extend(key, till, new)
  till = whole(math.ceil(till / 1000))
  if call('PEXPIREAT', key, till, new and 'NX' or 'GT') == 0 then
    call('PEXPIREAT', key, till, new and 'GT' or 'NX')
  end
end

-- A family is a hash: by which mapping and clocks its buckets were last written, and since when that is so. The instant is negative if no
-- other mapping was before.

-- Returns since when a family has its mapping and clocks, 0 if it has none, and whether they are the given ones.
local function read_family(key, mapping, clocks)
  local last = call('HMGET', key, 'mapping', 'clocks', 'since')
  return tonumber(last[3]) or 0, last[1] == mapping and same(last[2], clocks), last[1] and last[1] ~= mapping
end

-- Notes that a bucket of the family is written by this mapping and clocks. Returns since when that is so, and what read_family returned. If
-- the two differ, all marks of the family have ended.
local function claim(key, mapping, clocks, keep, now)
  local before, own, other = read_family(key, mapping, clocks)
  local since = own and before or (other or before > 0) and now or -now
  if not own then
    call('HSET', key, 'mapping', mapping, 'clocks', whole(clocks), 'since', whole(since))
  end
  extend(key, now + keep, before == 0)
  return since, before
end

-- Sets a key's expiry to the end of its last member: the end of a tombstone, or keep after an event. It never makes the expiry
-- earlier, unless the key has only tombstones.
local function expire(key, keep)
  local first = call('ZRANGE', key, '(' .. whole(lowest), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  if not first then
    return -- no key, or a mark alone
  end
  local newest, last = tonumber(call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')[2]), -tonumber(first)
  if newest >= 0 then
    extend(key, math.max(newest + keep, last))
  elseif call('ZSCORE', key, '') then
    extend(key, last)
  else
    call('PEXPIREAT', key, math.ceil(last / 1000))
  end
end

-- Sets the events that lie in the future, since the clock was set back, to now; newest is the latest of them. The key expires as much
-- earlier, but not before its tombstones end. The bucket is no longer complete: if the clock is soon right again, nothing else tells that
-- these instants are not.
local function bring_back(key, newest, now)
  if read_mark(call('ZSCORE', key, '')) > 0 then
    call('ZREM', key, '')
  end
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
