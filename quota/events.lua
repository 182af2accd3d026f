-- Returns the present instant, and then the ID and the instant of each event in a bucket, the
-- newest first. It writes nothing.
--
-- KEYS: the bucket. ARGV: the largest number of events to return.
local now = clock()
local answer, events = {whole(now)}, call('ZRANGE', KEYS[1], '+inf', 0, 'BYSCORE', 'REV', 'LIMIT', 0, ARGV[1] + 0, 'WITHSCORES')
for e = 1, #events, 2 do
  answer[e + 1], answer[e + 2] = events[e], whole(math.min(tonumber(events[e + 1]), now))
end
return answer
