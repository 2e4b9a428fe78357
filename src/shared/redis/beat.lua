-- Says that an owner lives, and renews the slots that it holds. Somebody else may have the place of
-- those whose lease had ended: they count beyond the amount, and the owner is told. After a loss the
-- store believes its callers, for as long as a lease.
-- After the story: the limits; the set of the living, the owner, and the microseconds that it
-- counts as alive (0 if it leaves); how many slots, and of each the place of its limit and its
-- name.
local limits = read_limits()
local living, owner, lasts = key(), word(), number()
redis.call('ZREMRANGEBYSCORE', living, '-inf', integer(now))
if lasts > 0 then
  redis.call('ZADD', living, integer(now + lasts), owner)
  prolong(living, lasts)
else
  redis.call('ZREM', living, owner)
end
local gone, renewed = {}, {}
for _ = 1, number() do
  local limit, member = limits[number() + 1], word()
  local until_ = tonumber(redis.call('ZSCORE', limit.key, member))
  if unknown_until(limit) <= now and not (until_ and until_ > now) then
    table.insert(gone, member)
  end
  redis.call('ZADD', limit.key, integer(now + limit.window), member)
  renewed[limit] = true
end
for limit in pairs(renewed) do
  redis.call('PEXPIRE', limit.key, milliseconds(limit.window))
end
changed()
return {redis.call('ZCARD', living), gone, standing()}
