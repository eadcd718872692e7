-- Replaces an answer with a fresh one, and notifies the nodes that have a copy of the old one.
--
-- KEYS  1 answer: string
-- ARGV  1 answer   2 TTL in milliseconds, 0 to store nothing   3 channel of the nodes
--       4 message
-- Result  1
-- Invariant  A node that receives the message finds the new answer or none.
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
