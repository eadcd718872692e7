-- Renews the lock of a call that is still running.
--
-- KEYS  1 lock: hash of the leader's token, and whether another node waits
-- ARGV  1 token of the leader   2 new TTL of the lock in milliseconds
-- Result  1 renewed, 0 the lock was lost or taken by another node
-- Invariant  A lock that was lost stays lost.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
