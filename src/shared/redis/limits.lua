-- What each law counts. It is checked step by step against the memory store, which says why.
local WINDOW, COUNTER, LOG, BUCKET, SLOTS = 1, 2, 3, 4, 5
local SLICES, ROUNDING = 4096, 1e-9
-- Reads how many limits there are, and of each: law, amount, window, burst and memory, and its key
-- (a log has two).
local function read_limits()
  local limits = {}
  for i = 1, number() do
    local limit = {law = number(), amount = number(), window = number(), burst = number(),
      memory = number(), key = key()}
    limit.largest = limit.amount
    if limit.law == BUCKET then
      limit.largest = limit.burst
    elseif limit.law == SLOTS then
      limit.largest = 1
    elseif limit.law == LOG then
      limit.log = key()
    end
    limits[i] = limit
  end
  return limits
end

local function slice(limit, at)
  local length = math.max(1, math.floor(limit.window / SLICES))
  return math.ceil(at / length) * length
end

-- The slices of a log, oldest first, in portions: what `unpack` takes is bounded.
local function each_slice(limit, from, to, visit)
  local offset = 0
  while true do
    local slices = redis.call('ZRANGEBYSCORE', limit.log, from, to, 'LIMIT', offset, 1000)
    if #slices == 0 then return end
    local amounts = redis.call('HMGET', limit.key, unpack(slices))
    for i, at in ipairs(slices) do
      if visit(at, tonumber(amounts[i]) or 0) then return end
    end
    offset = offset + #slices
  end
end

-- The state of a limit, moved on to now. Nothing is written.
local function load(limit)
  if limit.law == WINDOW or limit.law == COUNTER then
    local kept = redis.call('HMGET', limit.key, 'id', 'count', 'previous')
    local id, count = tonumber(kept[1]) or 0, tonumber(kept[2]) or 0
    limit.id = math.floor(now / limit.window)
    if id == limit.id then
      limit.count, limit.previous = count, tonumber(kept[3]) or 0
    else
      limit.count, limit.previous = 0, id + 1 == limit.id and count or 0
    end
  elseif limit.law == LOG then
    limit.sum, limit.added = tonumber(redis.call('HGET', limit.key, 'sum')) or 0, 0
    limit.over = '(' .. integer(now - limit.window)
    limit.expired = {}
    each_slice(limit, '-inf', integer(now - limit.window), function(at, amount)
      limit.sum = limit.sum - amount
      table.insert(limit.expired, at)
    end)
  elseif limit.law == BUCKET then
    local kept = redis.call('HMGET', limit.key, 'debt', 'at', 'since')
    limit.debt, limit.at = tonumber(kept[1]) or 0, tonumber(kept[2]) or 0
    limit.since = tonumber(kept[3]) or 0
  else
    limit.held = redis.call('ZCOUNT', limit.key, '(' .. integer(now), '+inf')
    limit.slots = {}
  end
end

local function left(limit)
  return math.max(0, limit.debt - (now - limit.at) * limit.amount / limit.window)
end

local function log_wait(limit, cost)
  local excess, wait = math.max(0, limit.sum + cost - limit.amount), 0
  if excess == 0 then return 0 end
  each_slice(limit, limit.over, '+inf', function(at, amount)
    if tonumber(at) == slice(limit, now) then amount = amount + limit.added end
    if amount >= excess then
      wait = at + limit.window - now
      return true
    end
    excess = excess - amount
  end)
  -- Only what this call adds stands in the way.
  return wait > 0 and wait or slice(limit, now) + limit.window - now
end

local function sliding_wait(limit, cost)
  local elapsed, window = now - limit.id * limit.window, limit.window
  local amount = limit.amount + ROUNDING
  if limit.previous * (1 - elapsed / window) + limit.count + cost <= amount then
    return 0
  end
  if limit.count + cost <= amount then
    local at = (1 - (amount - limit.count - cost) / limit.previous) * window
    return math.max(1, math.ceil(at - elapsed))
  end
  local at = (1 - (amount - cost) / limit.count) * window
  return math.ceil((window - elapsed) + math.max(0, at))
end

-- How long `cost` must wait; zero if it fits now.
local function wait_of(limit, cost)
  cost = math.min(cost, limit.largest)
  if limit.law == WINDOW then
    return limit.count + cost <= limit.amount and 0 or (limit.id + 1) * limit.window - now
  elseif limit.law == COUNTER then
    return sliding_wait(limit, cost)
  elseif limit.law == LOG then
    return log_wait(limit, cost)
  elseif limit.law == BUCKET then
    local excess = left(limit) + cost - limit.burst
    if excess <= ROUNDING then return 0 end
    return math.ceil((excess - ROUNDING) * limit.window / limit.amount)
  end
  if limit.held + cost <= limit.amount then return 0 end
  local first = redis.call('ZRANGEBYSCORE', limit.key, '(' .. integer(now), '+inf',
    'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and tonumber(first[2]) - now or limit.window
end

-- Charges an ask; `member` names its slot.
local function charge(limit, cost, member)
  cost = math.min(cost, limit.largest)
  if limit.law == WINDOW or limit.law == COUNTER then
    limit.count = limit.count + cost
  elseif limit.law == LOG then
    limit.sum, limit.added = limit.sum + cost, limit.added + cost
  elseif limit.law == BUCKET then
    local before = left(limit)
    if before == 0 then limit.since = now end
    limit.debt, limit.at = before + cost, now
  elseif cost > 0 then
    limit.held = limit.held + 1
    table.insert(limit.slots, member)
  end
end

-- Takes a charge of the moment `paid` back, where it still counts.
local function give_back(limit, cost, member, paid)
  cost = math.min(cost, limit.largest)
  if limit.law == WINDOW or limit.law == COUNTER then
    local of = math.floor(paid / limit.window)
    if of == limit.id then
      limit.count = math.max(0, limit.count - cost)
    elseif of + 1 == limit.id then
      limit.previous = math.max(0, limit.previous - cost)
    end
  elseif limit.law == LOG then
    local at = integer(slice(limit, paid))
    if tonumber(at) + limit.window > now then
      local back = math.min(cost, tonumber(redis.call('HGET', limit.key, at)) or 0)
      if back > 0 then
        redis.call('HINCRBY', limit.key, at, integer(-back))
        limit.sum = limit.sum - back
      end
    end
  elseif limit.law == BUCKET then
    -- After it was full once, the charge has long been refilled.
    if limit.since <= paid then limit.debt = math.max(0, limit.debt - cost) end
  else
    redis.call('ZREM', limit.key, member)
  end
end

local function save_log(limit)
  for i = 1, #limit.expired, 1000 do
    redis.call('HDEL', limit.key, unpack(limit.expired, i, math.min(i + 999, #limit.expired)))
  end
  redis.call('ZREMRANGEBYSCORE', limit.log, '-inf', integer(now - limit.window))
  if limit.added > 0 then
    local at = integer(slice(limit, now))
    redis.call('HINCRBY', limit.key, at, integer(limit.added))
    redis.call('ZADD', limit.log, at, at)
  end
  redis.call('HSET', limit.key, 'sum', integer(limit.sum))
  local ttl = milliseconds(limit.window * 2)
  redis.call('PEXPIRE', limit.key, ttl)
  redis.call('PEXPIRE', limit.log, ttl)
end

-- Writes a limit, with the end of its life.
local function save(limit)
  if limit.law == WINDOW or limit.law == COUNTER then
    redis.call('HSET', limit.key, 'id', integer(limit.id), 'count', integer(limit.count),
      'previous', integer(limit.previous))
    local windows = limit.law == WINDOW and 1 or 2
    redis.call('PEXPIRE', limit.key, milliseconds((limit.id + windows) * limit.window - now))
  elseif limit.law == LOG then
    save_log(limit)
  elseif limit.law == BUCKET then
    redis.call('HSET', limit.key, 'debt', string.format('%.17g', limit.debt),
      'at', integer(limit.at), 'since', integer(limit.since))
    redis.call('PEXPIRE', limit.key, milliseconds(limit.debt * limit.window / limit.amount))
  else
    redis.call('ZREMRANGEBYSCORE', limit.key, '-inf', integer(now))
    local score = integer(now + limit.window)
    for _, member in ipairs(limit.slots) do
      redis.call('ZADD', limit.key, score, member)
    end
    redis.call('PEXPIRE', limit.key, milliseconds(limit.window))
  end
end

-- Until when payments that were lost may still count.
local function unknown_until(limit)
  return lost == '1' and born + limit.memory or 0
end
