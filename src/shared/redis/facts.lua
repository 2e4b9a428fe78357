-- All facts that still hold. KEYS[2] is the key of the facts. Nothing is written.
local answer, fields = {integer(now)}, redis.call('HGETALL', KEYS[2])
for i = 1, #fields, 2 do
  local observed, ends, value = string.match(fields[i + 1], '^(%-?%d+) (%d+) (.*)$')
  if tonumber(ends) > now then
    table.insert(answer, fields[i])
    table.insert(answer, value)
    table.insert(answer, observed)
    table.insert(answer, ends)
  end
end
return answer
