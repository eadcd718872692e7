-- Admits one request of one API key: counts it in the key's window and takes a lease, or does neither.
--
-- KEYS  1 window: list of admission times in microseconds, the oldest first
--       2 leases: sorted set of lease ids by the microsecond at which each ends
--       3 generation: token of the key's last change, kept for as long as any node may remember the state before it
--       4 balance: "version balance" of the account, as last published
-- ARGV  1 generation that the caller last saw, "" for none   2 requests per window   3 concurrent leases
--       4 id of the new lease   5 length of the window   6 length of a lease, both in microseconds
-- Result  {verdict, generation, remaining, reset_s, balance}; verdict: 1 admitted, 0 the window is full,
--       -1 all leases are in use, -2 the generation differs; balance: "" if unknown
-- Invariant  At most ARGV[2] requests are admitted in any window, and none is refused below that number. Refused
--       requests are not counted. All times are from this server's clock. An admission exactly one window old has
--       left it. If the clock is set back by more than a window, the window starts empty.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local known = redis.call('MGET', KEYS[3], KEYS[4])
local generation, balance = known[1] or '', known[2] or ''
if generation ~= ARGV[1] then
  return {-2, generation, 0, 0, balance}
end

local limit, held_max = tonumber(ARGV[2]), tonumber(ARGV[3])
local window, lease = tonumber(ARGV[5]), tonumber(ARGV[6])
local function at(place)
  return tonumber(redis.call('LINDEX', KEYS[1], place))
end

local first = at(0)
if first and first + window <= now then
  -- All times before `kept` have left the window. `kept` is found by doubling, then halving, because a million times
  -- may leave at once.
  local gone, kept = 0, 1
  local next = at(kept)
  while next and next + window <= now do
    gone, kept = kept, 2 * kept
    next = at(kept)
  end
  if kept == 1 then
    redis.call('LPOP', KEYS[1])
    first = next
  else
    while kept - gone > 1 do
      local middle = math.floor((gone + kept) / 2)
      local time = at(middle)
      if time and time + window <= now then
        gone = middle
      else
        kept = middle
      end
    end
    redis.call('LTRIM', KEYS[1], kept, -1)
    first = at(0)
  end
end
if first and first > now + window then
  redis.call('DEL', KEYS[1])
  first = nil
end

local count = first and redis.call('LLEN', KEYS[1]) or 0
if count >= limit then
  -- After the limit was lowered, a slot becomes free only when the excess has left too.
  local leaves = redis.call('LINDEX', KEYS[1], count - limit) + window
  return {0, generation, 0, math.ceil((leaves - now) / 1000000), balance}
end

if redis.call('ZCARD', KEYS[2]) >= held_max then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], now + 2 * lease, '+inf')  -- left over from before the clock was set back
  if redis.call('ZCARD', KEYS[2]) >= held_max then
    return {-1, generation, 0, 0, balance}
  end
end

-- Expire one second later than needed, because keys expire in whole milliseconds.
redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000) + 1000)
redis.call('ZADD', KEYS[2], string.format('%.0f', now + lease), ARGV[4])
redis.call('PEXPIRE', KEYS[2], math.ceil(lease / 1000) + 1000)
return {1, generation, limit - count - 1, math.ceil(((first or now) + window - now) / 1000000), balance}
