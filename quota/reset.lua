-- Removes the events of the buckets in KEYS, and leaves a mark. Tombstones stay. ARGV: how long the
-- mark lasts.
local till = clock() + ARGV[1]
for _, key in ipairs(KEYS) do
  call('ZREMRANGEBYSCORE', key, 0, '+inf')
  put_tombstone(key, RESET_MARK, till)
end
return 1
