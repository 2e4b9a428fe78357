-- Frees slots.
-- After the story: the limits; how many slots, and of each the place of its limit and its name.
local limits = read_limits()
for _ = 1, number() do
  local limit, member = limits[number() + 1], word()
  redis.call('ZREM', limit.key, member)
end
changed()
return standing()
