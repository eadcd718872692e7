-- Takes back an admission that nobody heard of, if it happened: its lease and its place in the window.
--
-- KEYS  1 window: list of admission times in microseconds   2 leases: sorted set of lease ids by their ends
-- ARGV  1 id of the lease   2 length of a lease in microseconds
-- Result  1 taken back, 0 there was nothing
-- Invariant  The lease has never been renewed, so its end tells when the request was admitted.
local ends = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ends then
  return 0
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('LREM', KEYS[1], -1, string.format('%.0f', tonumber(ends) - tonumber(ARGV[2])))
return 1
