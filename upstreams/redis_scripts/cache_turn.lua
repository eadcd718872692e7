-- Decides how to get one answer: use the stored one, make the call, or wait for the node that makes it.
--
-- KEYS  1 answer: string   2 lock: hash of the leader's token, and whether another node waits
-- ARGV  1 token of the caller   2 TTL of its lock in milliseconds
-- Result  {2, answer, TTL in milliseconds}, {1} make the call, or {0, TTL of the lock in milliseconds} wait
-- Invariant  At most one token holds the lock; it ends when its holder ends it, or with its TTL.
local answer = redis.call('GET', KEYS[1])
if answer then
  return {2, answer, redis.call('PTTL', KEYS[1])}
end
if redis.call('HSETNX', KEYS[2], 'token', ARGV[1]) == 1 then
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  return {1}
end
redis.call('HSET', KEYS[2], 'awaited', 1)
return {0, redis.call('PTTL', KEYS[2])}
