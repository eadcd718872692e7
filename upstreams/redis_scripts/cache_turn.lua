-- Says what to do about one answer: use the stored one, make the call, or wait for who makes it.
--
-- KEYS  1 answer: string   2 lock: hash of the token of who makes the call, and whether somebody waits for it
-- ARGV  1 token of who asks   2 how long its lock lasts in milliseconds
-- Result  {2, answer, milliseconds it lasts}, {1} make the call, or {0, milliseconds the lock lasts} wait
-- Invariant  At most one token holds the lock; it ends with its holder's word or by its time.
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
