-- KEYS: the buckets. ARGV: the ID; the longest window of each bucket; then of each rule its bucket, limit and window.
-- Answers 0 refused, 1 admitted or 2 refunded, the instant, and what tell says of each rule after it.
local id, now = ARGV[1], clock()

local held = {} -- buckets that count the ID already: they neither decide nor count again (QUOTA-8)
for i, key in ipairs(KEYS) do
  local at = score(key, -1) and tonumber(redis.call('ZSCORE', key, id))
  if at and at < -now then
    return {2, now}
  end
  held[i] = at and at > now - ARGV[1 + i]
end

local rules, admitted = {}, 1
for a = 2 + #KEYS, #ARGV, 3 do
  local bucket, limit, window = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local n = count(KEYS[bucket], window, now)
  if n >= limit and not held[bucket] then
    admitted = 0
  end
  rules[#rules + 1] = {bucket, limit, n}
end

if admitted == 1 then -- a refusal writes nothing (QUOTA-7)
  for i, key in ipairs(KEYS) do
    if not held[i] then
      local keep, newest = ARGV[1 + i], score(key, -1)
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

local answer = {admitted, now}
for _, rule in ipairs(rules) do
  local bucket, limit, n = unpack(rule)
  if admitted == 1 and not held[bucket] then
    n = n + 1
  end
  tell(answer, KEYS[bucket], limit, n)
end
return answer
