-- KEYS: the buckets. ARGV: the ID; for how long its tombstone stays.
local till = clock() + ARGV[2]
for _, key in ipairs(KEYS) do
  put_tombstone(key, ARGV[1], till)
end
return 1
