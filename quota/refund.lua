-- Replaces an ID's event in each bucket by a tombstone. KEYS: the buckets. ARGV: the ID; how long
-- the tombstone lasts.
local till = clock() + ARGV[2]
for _, key in ipairs(KEYS) do
  put_tombstone(key, ARGV[1], till)
end
return 1
