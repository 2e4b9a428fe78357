-- Tells the others something. Of two facts about one subject the newer observation stays, or of
-- facts that only extend the one that holds longer.
-- After the story: the key of the facts, the channel; the subject, the value, the age and what it
-- lasts in microseconds, and '1' if it extends.
local kept, channel, subject, value = key(), word(), word(), word()
local observed, ends, extends = now - number(), now + number(), word() == '1'
local fields = redis.call('HGETALL', kept)
for i = 1, #fields, 2 do
  local seen, last = string.match(fields[i + 1], '^(%-?%d+) (%d+) ')
  if tonumber(last) <= now then
    redis.call('HDEL', kept, fields[i])
  elseif fields[i] == subject then
    local is_older = observed <= tonumber(seen)
    if extends then is_older = ends <= tonumber(last) end
    if is_older then return 0 end
  end
end
redis.call('HSET', kept, subject, integer(observed) .. ' ' .. integer(ends) .. ' ' .. value)
prolong(kept, ends - now)
facts = redis.call('HINCRBY', KEYS[1], 'facts', 1)
changed()
-- Whoever does not hear it asks from time to time.
redis.pcall('PUBLISH', channel, facts)
return 1
