-- Whether something was lost since the caller last looked. A state is born with a fresh epoch; a
-- caller that knows another one, or more changes than the state has seen, proves a loss.
-- ARGV[2] is a fresh epoch, ARGV[3] and ARGV[4] the epoch and the sequence that the caller knows
-- ('' and 0 if none), ARGV[5] the milliseconds that the story outlives its last change.
local epoch, sequence = story[1], tonumber(story[2]) or 0
local born, lost, facts = tonumber(story[3]), story[4], tonumber(story[5]) or 0

local function bear(is_lost)
  epoch, sequence, born, lost = ARGV[2], 0, now, is_lost
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'sequence', '0', 'born', integer(born),
    'lost', lost, 'facts', integer(facts))
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end

if not epoch then
  bear(ARGV[3] == '' and '0' or '1')
elseif ARGV[3] ~= '' and ARGV[3] ~= epoch then
  if lost == '0' then
    lost = '1'
    redis.call('HSET', KEYS[1], 'lost', lost)
  end
elseif ARGV[3] == epoch and tonumber(ARGV[4]) > sequence then
  bear('1')
end

-- Notes that the state has changed.
local function changed()
  sequence = redis.call('HINCRBY', KEYS[1], 'sequence', 1)
  if told then
    redis.call('HSET', KEYS[1], 'told', integer(now))
  end
  -- Never sooner than a call before meant: its windows may be longer.
  prolong(KEYS[1], tonumber(ARGV[5]) * 1000)
end

local function standing()
  return {integer(now), epoch, sequence, tonumber(lost), integer(born), facts}
end

-- What a script asks for beyond the story, one after the other.
local argument, place = 5, 1

local function word()
  argument = argument + 1
  return ARGV[argument]
end

local function number()
  return tonumber(word())
end

local function key()
  place = place + 1
  return KEYS[place]
end
