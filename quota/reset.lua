-- Removes the events of the buckets in KEYS, and their completeness marks. Tombstones and marks of doubt stay. The completeness marks
-- must go: if a send was counted here before this reset but in the log after its own, only a Restore brings it back.
for _, key in ipairs(KEYS) do
  call('ZREMRANGEBYSCORE', key, 0, '+inf')
  if read_mark(call('ZSCORE', key, '')) > 0 then
    call('ZREM', key, '')
  end
  expire(key, 0)
end
return 1
