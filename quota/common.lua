-- A bucket is one sorted set. The score of an event is its instant; that of a refunded ID is minus the instant until
-- which it stays refunded, so that it never counts. All instants and windows are in µs.

-- Lua's own tostring keeps 14 digits, an instant has 16 (QUOTA-3).
local function int(n)
  return string.format('%.0f', n)
end

-- Score of the i-th member, from the newest if i is negative; false where there is none. Asked for once: who writes after
-- the first question says what is known then.
local known = {}
local function score(key, i)
  local scores = known[key] or {}
  if scores[i] == nil then
    scores[i] = tonumber(redis.call('ZRANGE', key, i, i, 'WITHSCORES')[2]) or false
    known[key] = scores
  end
  return scores[i]
end

-- The rules that ARGV tells from a on, each with its bucket, limit and cutoff: what is later counts; and whether it only
-- observes, told by a bucket below 0. A window slides; in place of one, 0 comes with the four turns of a calendar's periods
-- around now. nil where now is outside of them.
local function rules(a, now)
  local list = {}
  while a <= #ARGV do
    local bucket, window, last = tonumber(ARGV[a]), tonumber(ARGV[a + 2]), a + 2
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
    list[#list + 1] = {math.abs(bucket), tonumber(ARGV[a + 1]), cutoff, bucket < 0}
    a = last + 1
  end
  return list
end

-- How many events are later than the cutoff.
local function count(key, cutoff)
  local newest = score(key, -1)
  if not newest or newest <= cutoff then
    return 0
  end
  return redis.call('ZCOUNT', key, '(' .. int(cutoff), '+inf')
end

-- Adds to the answer how many events a rule counts, the oldest of them, and the one whose leaving frees a place; 0 for
-- none. The two are found by rank from the newest, in O(log n) however low the limit has become.
local function tell(answer, key, limit, n)
  answer[#answer + 1] = n
  answer[#answer + 1] = n > 0 and score(key, -n) or 0
  answer[#answer + 1] = n >= limit and score(key, -limit) or 0
end

-- Lets a key that holds events live until then at least.
local function outlive(key, till)
  till = math.ceil(till / 1000)
  if redis.call('PEXPIRETIME', key) < till then
    redis.call('PEXPIREAT', key, int(till))
  end
end

-- After a write: a key lives as long as anything in it, never shorter than before while it holds events, else exactly as
-- long as its last refunded ID. keep is for how long events are needed, 0 to leave the events' time as it is.
local function settle(key, keep)
  local first, newest = score(key, 0), score(key, -1)
  if newest and newest < 0 then
    redis.call('PEXPIREAT', key, int(math.ceil(-first / 1000)))
  elseif newest then
    outlive(key, math.max(newest + keep, -first))
  end
end

-- Keeps the ID refunded until then. Its score is below those of all events, so what is known of these stays true.
local function bury(key, id, till)
  redis.call('ZADD', key, int(-till), id)
  settle(key, 0)
end
