-- Lends an owner a share of a rate for a time, by demand. What is lent has left the pool until it
-- is given back or its lease ends, and what was sent from it is earned; the memory store says why
-- each step.
-- After the story: the key of what is lent, the owner, how much it wants and has, the amount, the
-- lease in microseconds, in how many more all is earned that it sent, and '1' if it gives
-- everything back and leaves.
local lent = key()
local owner, want, has, amount = word(), number(), number(), number()
local lease, owes, is_last = number(), number(), word() == '1'

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

local others, wants, before = redis.call('HGETALL', lent), {want}, 0
local out, gone, owners, holders = 0, 0, 0, 0
for i = 1, #others, 2 do
  local share, wish, ends = string.match(others[i + 1], '^(%d+) (%d+) (%d+)$')
  share, wish = tonumber(share), tonumber(wish)
  if tonumber(ends) <= now then
    redis.call('HDEL', lent, others[i])
  elseif others[i] == owner then
    before = share
  else
    out, owners = out + share, owners + 1
    if wish > 0 then
      table.insert(wants, wish)
      if share > 0 then holders = holders + 1 end
    else
      gone = gone + share
    end
  end
end

local function keep(share, micros)
  redis.call('HSET', lent, owner, integer(share) .. ' ' .. integer(want) .. ' '
    .. integer(now + micros))
  prolong(lent, micros)
end

if is_last then
  want = 0
  if before > 0 and owes > 0 then
    keep(before, owes)
    owners = owners + 1
  else
    redis.call('HDEL', lent, owner)
  end
  changed()
  return {0, owners, 0, standing()}
end
local pool = math.max(0, amount - holders)
local free = math.max(0, pool - out)
local share, is_short
if lost == '1' and now < born + lease then
  share, is_short = math.min(has, want, free), 1
else
  local due = due_of(wants, math.max(0, pool - gone))
  share, is_short = math.min(due, free), due > free and 1 or 0
end
-- It sends at what it has until it hears this: the rest is lent to others when it has confirmed.
keep(math.max(share, math.min(has, before)), math.max(lease, owes))
changed()
return {share, owners + 1, is_short, standing()}
