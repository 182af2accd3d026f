-- KEYS: the buckets. ARGV: the ID; the deed; for how long each bucket keeps events, 0 where it is only looked at; what
-- ask reads, two for each bucket; the rules. The deed is 0 to take, -1 to say what a take would, and more to take or else keep the ID refunded for so long.
-- Answers 0 refused, 1 admitted, 2 refunded, 3 outside of the periods that a rule was told, or 4 admitted with nothing to
-- count; the instant; and after 0, 1 and 4 what tell says of each rule, and after 0 or with -1
-- what ask says.
local id, deed, now = ARGV[1], ARGV[2] + 0, clock()

-- Counts the ID, and drops what counts no more, refunded or not.
local function add(key, id, now, keep)
  local scores, old = known[key], now - keep
  local n, newest = scores.whole, scores[1]
  while n and n > 0 and scores[n] < -now do -- refunded still
    n = n - 1
  end
  if not n or n > 0 and scores[n] <= old then
    call('ZREMRANGEBYSCORE', key, -now, old)
    shorten(key, keep)
  end
  call('ZADD', key, now, id)
  newest = math.max(newest or now, now)
  if scores.whole == 0 then -- a new key
    call('PEXPIREAT', key, math.ceil((newest + keep) / 1000))
    known[key] = {now, whole = 1}
  else
    outlive(key, newest + keep)
    read(key)
  end
end

local held, counts, fresh = {}, {}, false -- who counts the ID already, neither decides nor counts again (QUOTA-8)
for i = 1, #KEYS do
  local key, keep = KEYS[i], ARGV[2 + i] + 0
  local at = read(key, keep > 0 and id)
  if at and at < -now then
    return {2, now}
  end
  held[key] = at and at > now - keep
  counts[key] = keep > 0 and not held[key]
  fresh = fresh or counts[key]
end

local list, admitted = rules(3 + 3 * #KEYS, now), 1
if not list then
  return {3, now}
end
for r = 1, #list do
  local rule = list[r]
  local key, n = rule[1], count(rule[1], rule[3])
  if n >= rule[2] and not rule[4] and not held[key] then
    admitted = 0
  end
  rule[3] = n
end

if admitted == 1 and deed >= 0 then -- a refusal writes nothing (QUOTA-7)
  for i = 1, #KEYS do
    if counts[KEYS[i]] then
      add(KEYS[i], id, now, ARGV[2 + i] + 0)
    end
  end
end

local answer = {admitted == 1 and not fresh and 4 or admitted, now}
for r = 1, #list do
  local rule = list[r]
  local n = rule[3]
  if admitted == 1 and deed >= 0 and counts[rule[1]] then
    n = n + 1
  end
  tell(answer, rule[1], rule[2], n)
end

if admitted == 0 or deed < 0 then
  ask(answer, 3 + #KEYS)
end

if admitted == 0 and deed > 0 then
  for i = 1, #KEYS do
    bury(KEYS[i], id, now + deed)
  end
end
return answer
