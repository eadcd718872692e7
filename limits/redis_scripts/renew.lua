-- Renews the leases of a node for their full length, and restores those that were lost.
--
-- KEYS  1 leases: sorted set of lease ids by the microsecond at which each ends
-- ARGV  1 length of a lease in microseconds   2... ids of the leases
-- Result  number of restored leases
-- Invariant  A lease that its node renews in time never ends, even if the limit was lowered.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local ends = string.format('%.0f', now + tonumber(ARGV[1]))
local added = 0
for place = 2, #ARGV do
  added = added + redis.call('ZADD', KEYS[1], ends, ARGV[place])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(tonumber(ARGV[1]) / 1000) + 1000)
return added
