-- The generic cell rate algorithm as it is usually written for Redis: what a decision costs there, for side_by_side.py.
-- KEYS[1]: the counter. ARGV: requests, in how many seconds, burst, cost.
-- Returns {allowed, remaining, retry_after_us, reset_us}.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = ARGV[2] * 1000000 / ARGV[1]
local burst = interval * ARGV[3]
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local after = arrival + interval * ARGV[4]
if after - now > burst then
  return {0, math.floor((burst - (arrival - now)) / interval), after - now - burst, arrival - now}
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000) + 1)
return {1, math.floor((burst - (after - now)) / interval), 0, after - now}
