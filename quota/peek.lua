-- KEYS: the buckets. ARGV: of each rule its bucket, limit and window. Answers 0, the instant, and what tell says.
local now = clock()
local answer = {0, now}
for a = 1, #ARGV, 3 do
  local key, limit, window = KEYS[tonumber(ARGV[a])], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  tell(answer, key, limit, count(key, window, now))
end
return answer
