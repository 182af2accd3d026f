-- Returns the commands of the limiter and its scripts that the Redis user may not run on the key.
-- It runs none of them except TIME, and writes nothing.
--
-- ARGV: a key that begins like those of the buckets.
local key, denied = ARGV[1], {}
for _, command in ipairs({
  {'EVAL', '', '1', key}, {'EVALSHA', '', '1', key}, {'TIME'}, {'ZADD', key, '0', 'id'}, {'ZCARD', key}, {'ZCOUNT', key, '0', '1'}, {'ZRANGE', key, '0', '0'},
  {'ZREMRANGEBYSCORE', key, '0', '1'}, {'ZSCORE', key, 'id'}, 
  {'PEXPIREAT', key, '1'}, {'PEXPIRETIME', key},
}) do
  if not redis.acl_check_cmd(unpack(command)) then
    denied[#denied + 1] = string.lower(command[1])
  end
end
if #denied == 0 then
  clock()
end
return denied
