-- Removes the events of the buckets in KEYS. Tombstones stay.
for _, key in ipairs(KEYS) do
  call('ZREMRANGEBYSCORE', key, 0, '+inf')
  expire(key, 0)
end
return 1
