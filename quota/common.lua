-- What the scripts share. Instants and windows are in µs. All are whole and below 2^53, so that a double is exact.
--
-- A bucket is one sorted set. Its members and their scores:
--   an ID that is counted    the instant of its event
--   the tombstone of an ID   minus the instant until which the ID stays refunded: below 0, so it never counts
--   '', the mark             below all tombstones: lowest - life * span - seconds. In that life of the server, the bucket
--                            has all events of so many seconds. Or doubtful - instant: it lacked an event of the log, and may
--                            lack more until then.

local call = redis.call -- writes a number with 17 digits; Lua's own tostring writes 14, and an instant has 16
local lowest, span = -2 ^ 52, 2 ^ 22
local doubtful = lowest - 2 ^ 50 -- below the marks of all lives

-- The life and the seconds of a mark with this score; 0 and 0 without one, or in doubt.
local function read_mark(score)
  local below = lowest - (tonumber(score) or lowest)
  if below >= lowest - doubtful then
    return 0, 0
  end
  return math.floor(below / span), below % span
end

local function in_doubt(key, now)
  return doubtful - (call('ZSCORE', key, '') or 0) > now
end

-- The life of this server, mixed with the number of the log that is asked after; 1 at least. The server takes a new
-- replication ID when it starts and when it is promoted. A user who may not ask for it has one life.
local replid
local function life(log)
  if not replid then
    local info, name = redis.pcall('INFO', 'replication'), 'master_replid:'
    local _, last = string.find(type(info) == 'string' and info or '', name, 1, true)
    replid = last and tonumber(string.sub(info, last + 1, last + 7), 16) or 0
  end
  return (replid + log) % (2 ^ 28 - 1) + 1
end

-- Removes the events that a bucket no longer keeps, the tombstones that have ended, and a mark that promises more.
local function prune(key, keep, now)
  call('ZREMRANGEBYSCORE', key, -now, now - keep)
  local _, seconds = read_mark(call('ZSCORE', key, ''))
  if seconds > keep / 1000000 then
    call('ZREM', key, '')
  end
end

-- Lets a key expire at this instant, or later if it does so already.
local function extend(key, till)
  till = math.ceil(till / 1000)
  if call('PEXPIREAT', key, till, 'NX') == 0 then -- not a new key
    call('PEXPIREAT', key, till, 'GT')
  end
end

-- Lets a key expire with its last member: a tombstone ends by itself, an event is needed for keep, or for as long as the key
-- lives already. Only a key of nothing but tombstones may come to expire earlier.
local function expire(key, keep)
  local first = call('ZRANGE', key, string.format('(%.0f', lowest), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
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

-- Puts a tombstone in the place of an ID.
local function put_tombstone(key, id, till)
  call('ZADD', key, -till, id)
  expire(key, 0)
end
