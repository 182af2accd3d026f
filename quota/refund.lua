-- KEYS: the buckets. ARGV: the ID, and for how long it stays refunded.
local till = clock() + ARGV[2]
for _, key in ipairs(KEYS) do
  redis.call('ZADD', key, int(-till), ARGV[1])
  settle(key, 0)
end
return 1
