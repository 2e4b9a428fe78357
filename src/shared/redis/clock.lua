-- The time, in microseconds: the server's, read once, so that callers' clocks do not matter. A
-- server that forbids TIME is told the time by its callers; then the latest one told counts, so
-- that it never goes back: a caller whose clock is behind waits a little longer.
-- KEYS[1] is the scope's story, ARGV[1] the caller's clock.
local story = redis.call('HMGET', KEYS[1], 'epoch', 'sequence', 'born', 'lost', 'facts', 'told')
local clock = redis.pcall('TIME')
local told = clock.err ~= nil
local now
if told then
  now = math.max(tonumber(ARGV[1]), tonumber(story[6]) or 0)
else
  now = clock[1] * 1000000 + clock[2]
end

local function integer(number)
  return string.format('%.0f', number)
end

-- The life of a key, with a second to spare: what has run out by the clock no longer counts
-- anyway, and a copy's clock may be ahead.
local function milliseconds(micros)
  return integer(math.ceil(micros / 1000) + 1000)
end

-- Lets a key live so long from now, or as long as it was to live already.
local function prolong(key, micros)
  local millis = math.max(tonumber(milliseconds(micros)), redis.call('PTTL', key))
  redis.call('PEXPIRE', key, integer(millis))
end
