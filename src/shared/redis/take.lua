-- Pays for as many asks as fit, in their order, each from all its limits or from none.
-- After the story: the limits; the record of the payment (a key, its id and how many milliseconds
-- it is remembered); '1' if the asks were sent already; how many runs of equal asks, and of each
-- how many and what one costs at every limit.
local limits = read_limits()
local record, id, remembered, is_sent = key(), word(), word(), word() == '1'
local kept = redis.call('HMGET', record, 'granted', 'paid')
if kept[1] then
  return {tonumber(kept[1]), 0, 0, now - tonumber(kept[2]), standing()}
end
for _, limit in ipairs(limits) do
  load(limit)
end

local granted, wait, is_lost = 0, 0, 0

local function look(costs)
  for i, limit in ipairs(limits) do
    local unknown = unknown_until(limit)
    if unknown > now then
      wait, is_lost = math.max(wait, unknown - now), 1
    else
      wait = math.max(wait, wait_of(limit, costs[i]))
    end
  end
end

for _ = 1, number() do
  local count, costs = number(), {}
  for i = 1, #limits do
    costs[i] = number()
  end
  for _ = 1, count do
    if wait > 0 then break end
    if not is_sent then look(costs) end
    if wait > 0 then break end
    for i, limit in ipairs(limits) do
      charge(limit, costs[i], id .. ':' .. granted)
    end
    granted = granted + 1
  end
end

if granted > 0 then
  for _, limit in ipairs(limits) do
    save(limit)
  end
  redis.call('HSET', record, 'granted', granted, 'paid', integer(now))
  redis.call('PEXPIRE', record, remembered)
  changed()
end
return {granted, math.min(wait, 2 ^ 53), is_lost, 0, standing()}
