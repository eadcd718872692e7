-- Takes a lease without counting a request.
--
-- KEYS  1 leases: sorted set of lease ids by the microsecond at which each ends
-- ARGV  1 concurrent leases   2 id of the new lease   3 length of a lease in microseconds
-- Result  1 taken, 0 all are in use
-- Invariant  At most ARGV[1] leases are in use by this server's clock; a lease ends when it is released or expires.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local held_max, lease = tonumber(ARGV[1]), tonumber(ARGV[3])
if redis.call('ZCARD', KEYS[1]) >= held_max then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 2 * lease, '+inf')  -- left over from before the clock was set back
  if redis.call('ZCARD', KEYS[1]) >= held_max then
    return 0
  end
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + lease), ARGV[2])
redis.call('PEXPIRE', KEYS[1], math.ceil(lease / 1000) + 1000)
return 1
