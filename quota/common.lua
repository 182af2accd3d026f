-- A bucket is one sorted set. The score of an event is its instant; that of a refunded ID is minus the instant until
-- which it stays refunded, so that it never counts. All instants and windows are in µs. The member '', which is no ID, marks
-- that the bucket has all events of so many seconds: its score is below all others, by life * span + seconds below lowest.

local call = redis.call -- writes a number with 17 digits; Lua's own tostring keeps 14, and an instant has 16 (QUOTA-3)

-- What is known of each bucket: scores by rank from the newest, which is 1; all of them, where whole says how many.
local known = {}

-- Asks for the newest few members at once, which nearly always are all, and gives the score of the ID.
local few = 16
local function read(key, id)
  local found, scores, at = call('ZRANGE', key, 0, few - 1, 'REV', 'WITHSCORES'), {}, nil
  for i = 2, #found, 2 do
    local value = tonumber(found[i])
    scores[i / 2] = value
    if found[i - 1] == id then
      at = value
    end
  end
  known[key] = scores
  if #scores < few then
    scores.whole = #scores
    return at
  end
  return at or id and tonumber(call('ZSCORE', key, id))
end

-- Score of the i-th member from the newest, of the lowest if i is 0; false where there is none. Who writes after the
-- first question says what is known then.
local function score(key, i)
  local scores = known[key] or {}
  if scores.whole then
    return scores[i == 0 and scores.whole or i] or false
  end
  if scores[i] == nil then
    local found = i == 0 and call('ZRANGE', key, 0, 0, 'WITHSCORES') or call('ZRANGE', key, i - 1, i - 1, 'REV', 'WITHSCORES')
    scores[i] = tonumber(found[2]) or false
    known[key] = scores
  end
  return scores[i]
end

-- The rules that ARGV tells from a on, each with its key, limit and cutoff: what is later counts; and whether it only
-- observes, told by a bucket below 0. A window slides; in place of one, 0 comes with the four turns of a calendar's periods
-- around now. nil where now is outside of them.
local function rules(a, now)
  local list, n = {}, 0
  while ARGV[a] do
    local bucket, window, last = ARGV[a] + 0, ARGV[a + 2] + 0, a + 2
    local cutoff = now - window
    if window == 0 then
      last = a + 6
      local turn = last
      while turn > a + 2 and now < tonumber(ARGV[turn]) do
        turn = turn - 1
      end
      if turn == last or turn == a + 2 then
        return nil
      end
      cutoff = ARGV[turn] - 1
    end
    n = n + 1
    list[n] = {KEYS[bucket < 0 and -bucket or bucket], ARGV[a + 1] + 0, cutoff, bucket < 0}
    a = last + 1
  end
  return list
end

-- How many events are later than the cutoff.
local function count(key, cutoff)
  local scores, n = known[key], 0
  while scores[n + 1] and scores[n + 1] > cutoff do
    n = n + 1
  end
  if scores[n + 1] or scores.whole then
    return n
  end
  return call('ZCOUNT', key, string.format('(%.0f', cutoff), '+inf')
end

-- Adds to the answer how many events a rule counts, the oldest of them, and the one whose leaving frees a place; 0 for
-- none. The two are found by rank from the newest, in O(log n) however low the limit has become.
local function tell(answer, key, limit, n)
  local last = #answer
  answer[last + 1] = n
  answer[last + 2] = n > 0 and score(key, n) or 0
  answer[last + 3] = n >= limit and score(key, limit) or 0
end

-- Below the score of every refunded ID; and how many seconds a mark has room for.
local lowest, span = -2 ^ 52, 2 ^ 22

-- The life of this server, mixed with the source that the caller's log reads from: more than 0. The server takes a new
-- replication ID when it starts and when it is promoted. A user who may not ask for it has one life.
local replid
local function life(source)
  if not replid then
    local info = redis.pcall('INFO', 'replication')
    local id = type(info) == 'string' and string.match(info, 'master_replid:(%x%x%x%x%x%x%x)')
    replid = tonumber(id or '0', 16)
  end
  return (replid + source) % (2 ^ 28 - 1) + 1
end

-- How far below lowest the mark of a bucket is; 0 for none.
local function mark(key)
  return lowest - (tonumber(call('ZSCORE', key, '')) or lowest)
end

-- Adds to the answer, of each key for which ARGV from a on tells seconds and a source: 0 if its bucket has all events of that
-- time, else the life for which it may be marked.
local function ask(answer, a)
  for i = 1, #KEYS do
    local need, source = ARGV[a + 2 * i - 2] + 0, ARGV[a + 2 * i - 1] + 0
    if need > 0 then
      local found, now = mark(KEYS[i]), life(source)
      local complete = math.floor(found / span) == now and found % span >= need
      answer[#answer + 1] = complete and 0 or now
    end
  end
end

-- Takes the mark off a bucket that no longer keeps its events for as long as the mark says.
local function shorten(key, keep)
  if mark(key) % span > keep / 1000000 then
    call('ZREM', key, '')
  end
end

-- Lets a key that holds events live until then at least.
local function outlive(key, till)
  till = math.ceil(till / 1000)
  if call('PEXPIRETIME', key) < till then
    call('PEXPIREAT', key, till)
  end
end

-- After a write: a key lives as long as anything in it, never shorter than before while it holds events or a mark, else
-- exactly as long as its last refunded ID. keep is for how long events are needed, 0 to leave the events' time as it is.
local function settle(key, keep)
  local first = tonumber(call('ZRANGE', key, string.format('(%.0f', lowest), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2])
  local newest = score(key, 1)
  if not first then
    return
  elseif newest >= 0 then
    outlive(key, math.max(newest + keep, -first))
  elseif mark(key) > 0 then
    outlive(key, -first)
  else
    call('PEXPIREAT', key, math.ceil(-first / 1000))
  end
end

-- Keeps the ID refunded until then.
local function bury(key, id, till)
  known[key] = nil
  call('ZADD', key, -till, id)
  settle(key, 0)
end
