-- Undoes an admission whose result was lost, if it happened: removes its lease and its entry in the window.
--
-- KEYS  1 window: list of admission times in microseconds   2 leases: sorted set of lease ids by their ends
-- ARGV  1 id of the lease   2 length of a lease in microseconds
-- Result  1 undone, 0 nothing to undo
-- Invariant  The lease was never renewed, so its end minus its length is the time of the admission.
local ends = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ends then
  return 0
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('LREM', KEYS[1], -1, string.format('%.0f', tonumber(ends) - tonumber(ARGV[2])))
return 1
