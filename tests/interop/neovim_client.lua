-- Neovim's own channel, which takes only an answer to the request that it sent last. Prints what expected.txt holds.
-- HOST and PORT come from the environment: a script of nvim has no arguments.
local address = os.getenv('HOST') .. ':' .. os.getenv('PORT')

local function connect()
  return vim.fn.sockconnect('tcp', address, { rpc = true })
end

local channel = connect()

local function ask(method, params)
  return vim.fn.rpcrequest(channel, method, params)
end

local function say(...)
  io.stdout:write(string.format(...), '\n')
end

local function show(title, got)
  local limit = got.limits[1]
  local by = got.decided_by == vim.NIL and '-' or got.decided_by
  local wait = ({ [0] = 'now', [-1] = 'never' })[got.retry_after_ms] or 'later'
  say('%s: %s %s %s %s %d %d %s', title, got.allowed, got.action, by, limit.name, limit.limit, limit.remaining, wait)
  return got
end

local function rep(times, title, method, params)
  for _ = 1, times do
    show(title, ask(method, params))
  end
end

local function rates()
  local first, second = { client = 'neovim-0' }, { client = 'neovim-1' }
  rep(4, 'check', 'check', { attributes = first })
  rep(1, 'check too dear', 'check', { attributes = second, cost = 4 })
  rep(2, 'same id', 'check', { attributes = second, id = 'neovim-once' })
  rep(2, 'peek', 'check', { attributes = second, peek = true })
  local one = { attributes = second }
  for _, got in ipairs(ask('check_many', { requests = { one, one, one } })) do
    show('check many', got)
  end
  rep(3, 'throttle', 'throttle', { key = 'neovim', rate = '2/d' })
end

local function leases()
  local pool = { attributes = { pool = 'neovim' } }
  local held = show('lease', ask('check', pool))
  show('lease taken', ask('check', pool))
  for _, title in ipairs({ 'release', 'release again' }) do
    say('%s: %s', title, ask('release', { lease = held.limits[1].lease }).released)
  end
  show('lease', ask('check', pool))
end

local function fails(title, method)
  local is_done, problem = pcall(ask, method, { cost = 1 })
  assert(not is_done, title)
  say('%s: %s', title, tostring(problem):match('([A-Z_]+): ') or problem)
end

-- A channel has one request on its way at a time; four of them take turns.
local function at_once()
  local channels = { channel, connect(), connect(), connect() }
  local allowed = 0
  for i = 0, 19 do
    local got = vim.fn.rpcrequest(channels[i % 4 + 1], 'check', { attributes = { client = 'neovim-2' } })
    allowed = allowed + (got.allowed and 1 or 0)
  end
  say('at once: %d of 20', allowed)
end

local is_done, problem = pcall(function()
  rates()
  leases()
  fails('unknown method', 'no_such_method')
  fails('no attributes', 'check')
  at_once()
end)
if not is_done then
  io.stderr:write(tostring(problem), '\n')
end
vim.cmd(is_done and 'qall!' or 'cquit')
