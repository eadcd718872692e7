-- Replaces an answer by one that was made to be fresh, and says so to those who hold the old one themselves.
--
-- KEYS  1 answer: string
-- ARGV  1 answer   2 milliseconds it lasts, 0 when it is not to be stored   3 channel that those listen to
--       4 what to say there
-- Result  1
-- Invariant  Who hears of it finds the new answer or none.
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
