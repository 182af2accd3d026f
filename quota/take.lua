-- KEYS: the buckets. ARGV: the ID; the deed; for how long each bucket keeps events, 0 where it is only looked at; the
-- rules. The deed is 0 to take, -1 to say what a take would, and more to take or else keep the ID refunded for so long.
-- Answers 0 refused, 1 admitted, 2 refunded, 3 outside of the periods that a rule was told, or 4 admitted with nothing to
-- count; the instant; and after 0, 1 and 4 what tell says of each rule.
local id, deed, now = ARGV[1], tonumber(ARGV[2]), clock()

local held, counts, fresh = {}, {}, false -- who counts the ID already, neither decides nor counts again (QUOTA-8)
for i, key in ipairs(KEYS) do
  local looked = ARGV[2 + i] == '0'
  local at = not looked and score(key, -1) and tonumber(redis.call('ZSCORE', key, id))
  if at and at < -now then
    return {2, now}
  end
  held[i] = at and at > now - ARGV[2 + i]
  counts[i] = not held[i] and not looked
  fresh = fresh or counts[i]
end

local list, admitted = rules(3 + #KEYS, now), 1
if not list then
  return {3, now}
end
for _, rule in ipairs(list) do
  local bucket, limit, cutoff, observes = unpack(rule)
  rule[3] = count(KEYS[bucket], cutoff)
  if rule[3] >= limit and not observes and not held[bucket] then
    admitted = 0
  end
end

if admitted == 1 and deed >= 0 then -- a refusal writes nothing (QUOTA-7)
  for i, key in ipairs(KEYS) do
    if counts[i] then
      local keep, newest = ARGV[2 + i], score(key, -1)
      if newest then -- drop what counts no more, refunded or not
        redis.call('ZREMRANGEBYSCORE', key, int(-now), int(now - keep))
      end
      redis.call('ZADD', key, int(now), id)
      newest = math.max(newest or now, now)
      known[key] = {[-1] = newest}
      outlive(key, newest + keep)
    end
  end
end

local answer = {admitted == 1 and not fresh and 4 or admitted, now}
for _, rule in ipairs(list) do
  local bucket, limit, n = unpack(rule)
  if admitted == 1 and deed >= 0 and counts[bucket] then
    n = n + 1
  end
  tell(answer, KEYS[bucket], limit, n)
end

if admitted == 0 and deed > 0 then
  for _, key in ipairs(KEYS) do
    bury(key, id, now + deed)
  end
end
return answer
