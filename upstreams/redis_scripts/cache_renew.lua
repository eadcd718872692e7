-- Lets the lock of a call that still runs last for longer.
--
-- KEYS  1 lock: hash of the token of who makes the call, and whether somebody waits for it
-- ARGV  1 token of who makes the call   2 how long its lock lasts from now in milliseconds
-- Result  1 renewed, 0 the lock is another's by now or nobody's
-- Invariant  A lock that was lost stays lost.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
