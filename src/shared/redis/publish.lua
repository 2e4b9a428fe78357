-- Tells the others something. Of two facts about one subject the newer observation stays, or of
-- facts that only extend the one that holds longer.
-- After the story: the keys of the facts, of their order and of their ends, the channel; the
-- subject, the value, the age and what it lasts in microseconds, '1' if it extends, and how many
-- are kept at most.
local kept, order, terms = key(), key(), key()
local channel, subject, value = word(), word(), word()
local observed, ends, extends = now - number(), now + number(), word() == '1'
local most = number()

local function forget(subjects)
  for _, old in ipairs(subjects) do
    redis.call('HDEL', kept, old)
    redis.call('ZREM', order, old)
    redis.call('ZREM', terms, old)
  end
end

-- A few at a time: more than one comes to an end seldom.
forget(redis.call('ZRANGEBYSCORE', terms, '-inf', integer(now), 'LIMIT', 0, 64))
local before = redis.call('HGET', kept, subject)
if before then
  local seen, last = string.match(before, '^(%-?%d+) (%d+) ')
  if tonumber(last) > now then
    local is_older = observed <= tonumber(seen)
    if extends then is_older = ends <= tonumber(last) end
    if is_older then return 0 end
  end
end
facts = redis.call('HINCRBY', KEYS[1], 'facts', 1)
redis.call('HSET', kept, subject, integer(observed) .. ' ' .. integer(ends) .. ' ' .. value)
redis.call('ZADD', order, integer(facts), subject)
redis.call('ZADD', terms, integer(ends), subject)
if redis.call('ZCARD', order) > most then
  forget(redis.call('ZRANGEBYSCORE', order, '-inf', '+inf', 'LIMIT', 0, 1))
end
for _, each in ipairs({kept, order, terms}) do
  prolong(each, ends - now)
end
changed()
-- Whoever does not hear it asks from time to time.
redis.pcall('PUBLISH', channel, facts)
return 1
