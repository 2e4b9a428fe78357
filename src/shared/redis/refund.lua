-- Gives back what was paid and never sent, each ask once. A payment that has not arrived yet is
-- barred.
-- After the story: the limits; the record of the payment as for taking; how many asks, and of each
-- its place and what it cost at every limit.
local limits = read_limits()
local record, id, remembered = key(), word(), word()
local kept = redis.call('HMGET', record, 'granted', 'paid')
if not kept[1] then
  redis.call('HSET', record, 'granted', '0', 'paid', integer(now))
  redis.call('PEXPIRE', record, remembered)
  changed()
  return standing()
end
local granted, paid = tonumber(kept[1]), tonumber(kept[2])
for _, limit in ipairs(limits) do
  load(limit)
end
local is_new = false
for _ = 1, number() do
  local item, costs = number(), {}
  for i = 1, #limits do
    costs[i] = number()
  end
  if item < granted and redis.call('HSETNX', record, 'back:' .. item, '1') == 1 then
    is_new = true
    for i, limit in ipairs(limits) do
      give_back(limit, costs[i], id .. ':' .. item, paid)
    end
  end
end
if is_new then
  for _, limit in ipairs(limits) do
    save(limit)
  end
end
changed()
return standing()
