-- Decides all rules of a request at one instant: an admitted ID is counted in every bucket, a
-- refused one in none.
--
-- KEYS are the buckets. ARGV:
--   the ID; 'take', or 'look' to count nothing; how long a refused ID gets a tombstone, 0 for none
--   for each bucket: how long it keeps events, 0 if it is only read
--   for each rule: the number of its bucket, negative if the rule only observes; its limit; and one
--   of:
--     its window
--     0 and the starts of four calendar periods around now
--     -1, the starts of four dates, and for each of the first three the first instant that counts
-- The script is clock.lua, common.lua and this file, in this order.
--
-- Returns a code and the instant of the decision. Unless the code is REFUNDED or OUTSIDE, three
-- numbers follow for each rule:
--   how many events it counts
--   the instant of the oldest counted event, 0 for none
--   the instant of the event that must leave before the next one is admitted, 0 for none
local REFUSED, ADMITTED, REFUNDED, OUTSIDE, UNCHANGED = 0, 1, 2, 3, 4 -- UNCHANGED: admitted, and all buckets had the ID
local id, writes, tombstone, now = ARGV[1], ARGV[2] == 'take', ARGV[3] + 0, clock()

-- Read all members of a bucket with one command if they are few, as they nearly always are. A
-- bucket that is only read ignores the ID. One that counts the ID already neither decides nor
-- counts it again.
local few, buckets, code = 16, {}, UNCHANGED
local gone = false
for i = 1, #KEYS do
  local key = KEYS[i]
  local keep, size, newest, at = ARGV[i + 3] + 0, call('ZCARD', key), {}, nil
  local stale = size > few -- there may be an event older than keep or a tombstone
  if size > few then
    at = tonumber(call('ZSCORE', key, id))
    newest[1] = tonumber(call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')[2])
  elseif size > 0 then
    local members = call('ZRANGE', key, 0, -1, 'REV', 'WITHSCORES')
    for m = 1, #members, 2 do
      local rank, member, score = (m + 1) / 2, members[m], tonumber(members[m + 1])
      newest[rank] = score
      at = member == id and score or at
      stale = stale or score <= now - keep
    end
  end
  if newest[1] and newest[1] > now then
    clamp_to_now(key, newest[1], now)
    for rank = 1, #newest do
      newest[rank] = math.min(newest[rank], now)
    end
  end
  local counts = keep > 0
  gone = gone or counts and at and at < -now -- a tombstone's score is minus its end
  local counted = counts and at and at > now - keep
  local adds = counts and not counted
  code = adds and ADMITTED or code
  buckets[i] = {key = key, new = size == 0, all = size <= few, keep = keep, newest = newest, counted = counted, adds = adds,
    stale = stale}
end
if gone then
  return {REFUNDED, now}
end

-- For each rule, find its cutoff: events up to it no longer count.
local refused, rules, a = false, {}, 4 + #KEYS
while ARGV[a] do
  local bucket, limit, window = ARGV[a] + 0, ARGV[a + 1] + 0, ARGV[a + 2] + 0
  local cutoff = now - window
  a = a + 3
  if window <= 0 then -- the current period began at the last start that is not in the future
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
  local used = b.all and n or call('ZCOUNT', b.key, '(' .. whole(cutoff), '+inf')
  refused = refused or used >= limit and not observes and not b.counted
  rules[#rules + 1] = {bucket = b, limit = limit, used = used}
end
code = refused and REFUSED or code

-- The instant of the event with this rank; the newest has rank 1. O(log n), whatever the limit.
local function event(b, rank)
  b.newest[rank] = b.newest[rank] or tonumber(call('ZRANGE', b.key, rank - 1, rank - 1, 'REV', 'WITHSCORES')[2])
  return b.newest[rank]
end

-- Add the ID, remove what no rule needs, extend the expiry. A refusal writes at most a tombstone.
local adds = code == ADMITTED and writes
for i = 1, #buckets do
  local b = buckets[i]
  if adds and b.adds then
    if b.stale then
      prune(b.key, b.keep, now)
    end
    call('ZADD', b.key, whole(now), id)
    table.insert(b.newest, 1, now)
    extend(b.key, now + b.keep, b.new)
  elseif code == REFUSED and tombstone > 0 then
    put_tombstone(b.key, id, now + tombstone)
  end
end

local answer = {code, now}
for i = 1, #rules do
  local rule, last = rules[i], #answer
  local b, n = rule.bucket, rule.used
  n = adds and b.adds and n + 1 or n
  answer[last + 1] = n
  answer[last + 2] = n > 0 and event(b, n) or 0
  answer[last + 3] = n >= rule.limit and event(b, rule.limit) or 0
end
return answer
