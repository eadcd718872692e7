-- Ends a call: stores its answer, if there is one to share, and lets those go on who wait for it.
--
-- KEYS  1 answer: string   2 lock: hash of the token of who makes the call, and whether somebody waits for it
-- ARGV  1 token of who made the call   2 answer   3 milliseconds it lasts, 0 when there is none
--       4 channel that those who wait listen to   5 what to say there
-- Result  1 ended, 0 the lock is another's by now or nobody's, and nothing was stored
-- Invariant  Only who holds the lock stores and ends it.
local held = redis.call('HMGET', KEYS[2], 'token', 'awaited')
if held[1] ~= ARGV[1] then
  return 0
end
if tonumber(ARGV[3]) > 0 then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
redis.call('DEL', KEYS[2])
if held[2] then
  redis.call('PUBLISH', ARGV[4], ARGV[5])
end
return 1
