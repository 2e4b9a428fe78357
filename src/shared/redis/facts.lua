-- The facts that still hold of those published since. Nothing is written. KEYS[2] and KEYS[3] are
-- the facts and their order, ARGV[2] how many had been published, ARGV[3] how many are read at once.
local news = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[2], '+inf', 'WITHSCORES',
  'LIMIT', 0, ARGV[3])
local version, subjects = story[5] or '0', {}
for i = 1, #news, 2 do
  table.insert(subjects, news[i])
end
if #subjects == tonumber(ARGV[3]) then version = news[#news] end
local answer = {integer(now), version}
if #subjects == 0 then return answer end
local values = redis.call('HMGET', KEYS[2], unpack(subjects))
for i, subject in ipairs(subjects) do
  local observed, ends, value = string.match(values[i] or '', '^(%-?%d+) (%d+) (.*)$')
  if ends and tonumber(ends) > now then
    table.insert(answer, subject)
    table.insert(answer, value)
    table.insert(answer, observed)
    table.insert(answer, ends)
  end
end
return answer
