-- Lends an owner a share of a rate for a time, by demand. What is lent has left the pool until it
-- is given back or its lease ends; the memory store says why each step.
-- After the story: the key of what is lent, the owner, how much it wants and has, the amount, the
-- lease in microseconds, and '1' if it gives everything back and leaves.
local lent = key()
local owner, want, has, amount = word(), number(), number(), number()
local lease, is_last = number(), word() == '1'

local function pool_for(owners)
  return math.max(math.max(0, amount - (owners - 1)), math.ceil(amount / 2))
end

local function due_of(wants, pool)
  table.sort(wants)
  local left, heads = pool, #wants
  for _, other in ipairs(wants) do
    local part = math.floor(left / heads)
    if other > part then
      return math.min(want, math.max(part, 1))
    end
    left, heads = left - other, heads - 1
  end
  return want + math.floor(left / #wants)
end

local others, out, owners, wants, before = redis.call('HGETALL', lent), 0, 0, {want}, 0
for i = 1, #others, 2 do
  local share, wish, ends = string.match(others[i + 1], '^(%d+) (%d+) (%d+)$')
  if tonumber(ends) <= now then
    redis.call('HDEL', lent, others[i])
  elseif others[i] == owner then
    before = tonumber(share)
  else
    out, owners = out + tonumber(share), owners + 1
    table.insert(wants, tonumber(wish))
  end
end

if is_last then
  redis.call('HDEL', lent, owner)
  changed()
  return {0, owners, 0, standing()}
end
local pool = pool_for(owners + 1)
local free = math.max(0, pool - out)
local share, is_short
if lost == '1' and now < born + lease then
  share, is_short = math.min(has, want, free), 1
else
  local due = due_of(wants, pool)
  share, is_short = math.min(due, free), due > free and 1 or 0
end
-- It sends at what it has until it hears this: the rest is lent to others when it has confirmed.
local kept = math.max(share, math.min(has, before))
redis.call('HSET', lent, owner, integer(kept) .. ' ' .. integer(want) .. ' ' .. integer(now + lease))
prolong(lent, lease)
changed()
return {share, owners + 1, is_short, standing()}
