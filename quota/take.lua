-- Decides all rules of a request at one instant: an admitted ID is counted in every bucket, a refused one in none.
--
-- KEYS are the buckets. ARGV: the ID; 'take', or 'look' to write nothing; for how long a refused ID gets a tombstone, or 0.
-- Of each bucket: for how long it keeps events, 0 where it is only looked at; of how many seconds it must have all events,
-- 0 where that is not asked; the number of the log that has them too. Of each rule: the number of its bucket, negative
-- where the rule only observes; its limit; its window, or 0 and the four turns of its calendar's periods around now, or -1, the four
-- turns of its dates, and of each of the first three the instant from which events count.
--
-- Answers a code and the instant. Unless REFUNDED or OUTSIDE, of each rule: how many events it counts, the oldest of them, and
-- the one that has to leave before the next is admitted; 0 for none. After a refusal or a look, of each bucket that must have
-- all events: 0 if it has, else the life in which it may be marked.
local REFUSED, ADMITTED, REFUNDED, OUTSIDE, UNCHANGED = 0, 1, 2, 3, 4 -- UNCHANGED: admitted, with nothing to add
local id, writes, tombstone, now = ARGV[1], ARGV[2] == 'take', ARGV[3] + 0, clock()

-- Read the members of each bucket at once, if they are few, as nearly always. The ID means nothing to a bucket that is only
-- looked at. A bucket that counts the ID already does not decide, and does not count it again.
local few, buckets, code = 16, {}, UNCHANGED
for i = 1, #KEYS do
  local key = KEYS[i]
  local keep, size, newest, mark, at = ARGV[3 * i + 1] + 0, call('ZCARD', key), {}, nil, nil
  if size > few then
    mark, at = call('ZSCORE', key, ''), tonumber(call('ZSCORE', key, id))
  elseif size > 0 then
    local members = call('ZRANGE', key, 0, -1, 'REV', 'WITHSCORES')
    for m = 1, #members, 2 do
      local rank, score = (m + 1) / 2, tonumber(members[m + 1])
      newest[rank] = score
      mark = members[m] == '' and score or mark
      at = members[m] == id and score or at
    end
  end
  local counts = keep > 0
  if counts and at and at < -now then
    return {REFUNDED, now}
  end
  local counted = counts and at and at > now - keep
  local adds = counts and not counted
  code = adds and ADMITTED or code
  buckets[i] = {key = key, keep = keep, newest = newest, all = size <= few, mark = mark, counted = counted, adds = adds}
end

-- Prune: an event up to the cutoff of a rule no longer counts for it. The members that no rule needs go when an ID is added.
local refused, rules, a = false, {}, 4 + 3 * #KEYS
while ARGV[a] do
  local bucket, limit, window = ARGV[a] + 0, ARGV[a + 1] + 0, ARGV[a + 2] + 0
  local cutoff = now - window
  a = a + 3
  if window <= 0 then -- the calendar's period began with the last turn that is not ahead
    local first, last, turn = a, a + 3, a + 3
    while turn >= first and now < tonumber(ARGV[turn]) do
      turn = turn - 1
    end
    if turn < first or turn == last then
      return {OUTSIDE, now}
    end
    cutoff, a = ARGV[turn] - 1, last + 1
    if window < 0 then
      cutoff, a = ARGV[turn + 4] - 1, last + 4
    end
  end
  -- Count the events after the cutoff, and decide.
  local observes = bucket < 0
  local b, n = buckets[observes and -bucket or bucket], 0
  while b.newest[n + 1] and b.newest[n + 1] > cutoff do
    n = n + 1
  end
  local used = b.all and n or call('ZCOUNT', b.key, string.format('(%.0f', cutoff), '+inf')
  refused = refused or used >= limit and not observes and not b.counted
  rules[#rules + 1] = {bucket = b, limit = limit, used = used}
end
code = refused and REFUSED or code

-- Ranks go from the newest event, 1, so that one is found in O(log n) whatever the limit.
local function event(b, rank)
  b.newest[rank] = b.newest[rank] or tonumber(call('ZRANGE', b.key, rank - 1, rank - 1, 'REV', 'WITHSCORES')[2])
  return b.newest[rank]
end

-- Add the ID, and let the key expire with its newest event. A refusal writes nothing but the tombstone that is asked for.
local adds = code == ADMITTED and writes
for i = 1, #buckets do
  local b = buckets[i]
  if adds and b.adds then
    if b.newest[1] or not b.all then
      prune(b.key, b.keep, now)
    end
    call('ZADD', b.key, now, id)
    local rank = 1
    while b.newest[rank] and b.newest[rank] > now do
      rank = rank + 1
    end
    if b.all then
      table.insert(b.newest, rank, now)
    end
    extend(b.key, event(b, 1) + b.keep)
  elseif code == REFUSED and tombstone > 0 then
    put_tombstone(b.key, id, now + tombstone)
  end
end

-- Answer.
local answer = {code, now}
for i = 1, #rules do
  local rule, last = rules[i], #answer
  local b, n = rule.bucket, rule.used
  n = adds and b.adds and n + 1 or n
  answer[last + 1] = n
  answer[last + 2] = n > 0 and event(b, n) or 0
  answer[last + 3] = n >= rule.limit and event(b, rule.limit) or 0
end
for i = 1, #buckets do
  local b, seconds, log = buckets[i], ARGV[3 * i + 2] + 0, ARGV[3 * i + 3] + 0
  if seconds > 0 and (code == REFUSED or not writes) then
    local current, marked, complete = life(log), read_mark(b.mark)
    answer[#answer + 1] = marked == current and complete >= seconds and 0 or current
  end
end
return answer
