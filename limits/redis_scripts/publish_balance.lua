-- Keeps the newest balance of an account.
--
-- KEYS  1 balance: "version balance"
-- ARGV  1 version   2 balance   3 milliseconds to keep it
-- Result  1 stored, 0 a version at least as new was stored before
-- Invariant  The version never decreases while the key exists.
local known = redis.call('GET', KEYS[1])
if known and tonumber(string.match(known, '^%d+')) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
return 1
