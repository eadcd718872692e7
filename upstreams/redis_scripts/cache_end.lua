-- Ends a call: stores its answer, if it is shared, and wakes the nodes that wait for it.
--
-- KEYS  1 answer: string   2 lock: hash of the leader's token, and whether another node waits
-- ARGV  1 token of the leader   2 answer   3 TTL in milliseconds, 0 without an answer
--       4 channel of the waiting nodes   5 message
-- Result  1 ended, 0 the lock was lost or taken by another node, and nothing was stored
-- Invariant  Only the holder of the lock stores the answer and ends the lock.
local held = redis.call('HMGET', KEYS[2], 'token', 'awaited')
if held[1] ~= ARGV[1] then
  return 0
end
if tonumber(ARGV[3]) > 0 then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
redis.call('DEL', KEYS[2])
if held[2] then
  redis.call('PUBLISH', ARGV[4], ARGV[5])
end
return 1
