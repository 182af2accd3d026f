-- ARGV: a key like those of the buckets. Answers the commands that this user may not run on it, of all that the limiter
-- and its scripts run. It runs none of them, and so writes nothing.
local key, denied = ARGV[1], {}
for _, command in ipairs({
  {'EVAL', '', '1', key}, {'EVALSHA', '', '1', key}, {'TIME'}, {'ZADD', key, '0', 'id'}, {'ZCARD', key}, {'ZCOUNT', key, '0', '1'}, {'ZRANGE', key, '0', '0'},
  {'ZREM', key, 'id'}, {'ZREMRANGEBYSCORE', key, '0', '1'}, {'ZSCORE', key, 'id'}, {'PEXPIREAT', key, '1'},
}) do
  if not redis.acl_check_cmd(unpack(command)) then
    denied[#denied + 1] = string.lower(command[1])
  end
end
if #denied == 0 then
  clock()
end
return denied
