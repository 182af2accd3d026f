-- KEYS: the buckets. ARGV: the rules. Answers 0, the instant, and what tell says; or 3 and the instant, if that is outside
-- of the periods that a rule was told.
local now = clock()
local list = rules(1, now)
if not list then
  return {3, now}
end
local answer = {0, now}
for _, key in ipairs(KEYS) do
  read(key)
end
for _, rule in ipairs(list) do
  tell(answer, rule[1], rule[2], count(rule[1], rule[3]))
end
return answer
