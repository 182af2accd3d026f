-- KEYS: the buckets. ARGV: what ask reads, two for each bucket; the rules. Answers 0, the instant, what tell says, and what
-- ask says; or 3 and the instant, if that is outside of the periods that a rule was told.
local now = clock()
local list = rules(1 + 2 * #KEYS, now)
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
ask(answer, 1)
return answer
