-- KEYS: the buckets. ARGV: the ID, and for how long it stays refunded.
local till = clock() + ARGV[2]
for _, key in ipairs(KEYS) do
  bury(key, ARGV[1], till)
end
return 1
