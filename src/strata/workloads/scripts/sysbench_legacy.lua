-- SPDX-License-Identifier: Apache-2.0
--
-- The transaction mixes of sysbench 0.4.12 for sysbench 1.0, from the definitions in its sources
-- (sysbench/tests/oltp/sb_oltp.c): table, constant rows, statements, ranges, random ids.
--
-- What differs: the random numbers are sysbench 1.0's, and statements are counted by 1.0.

if sysbench.cmdline.command == nil then
   error("a command is missing: prepare, run, sample")
end

sysbench.cmdline.options = {
   mix = {"complex, read-only, simple, nontrx-select, nontrx-update-key, nontrx-update-nokey, " ..
             "nontrx-insert, nontrx-delete", "complex"},
   table_size = {"Rows of the table", 10000},
   range_size = {"Rows of a range", 100},
   distribution = {"Of the ids: special, uniform, gaussian", "special"},
   dist_iter = {"Numbers that a gaussian id is the mean of", 12},
   dist_pct = {"Share of the rows that are special, in percent", 1},
   dist_res = {"Share of the ids that are special, in percent", 75},
   extra_update = {"Whether the row that is deleted is updated before: auto (on PostgreSQL), on, off", "auto"},
   samples = {"How many ids the command sample prints", 10000},
}

local ROWS_PER_INSERT = 10000
local LARGE_PRIME = 2147483647
local RND_MAX = 0x3fffffff -- of sb_rnd(), which is below it
local PAD = "qqqqqqqqqqwwwwwwwwwweeeeeeeeeerrrrrrrrrrtttttttttt"
local PAD_AGAIN = "aaaaaaaaaaffffffffffrrrrrrrrrreeeeeeeeeeyyyyyyyyyy" -- of a row that was deleted

-- Random ids -----------------------------------------------------------------------------------------------

local function rnd()
   return sysbench.rand.uniform(0, RND_MAX - 1)
end

local function uniform_id()
   return 1 + rnd() % sysbench.opt.table_size
end

local function gaussian_id()
   local sum = 0
   for _ = 1, sysbench.opt.dist_iter do
      sum = sum + uniform_id()
   end
   return math.floor(sum / sysbench.opt.dist_iter)
end

-- A number from a range that is larger than the table by the share of special ids. What lies in the table
-- becomes a gaussian id, and the rest is mapped evenly onto few rows in its middle.
local function special_id()
   local size, pct = sysbench.opt.table_size, sysbench.opt.dist_pct
   local id = 1 + rnd() % (size * math.floor(100 / (100 - sysbench.opt.dist_res)))
   if id <= size then
      return gaussian_id()
   end
   local special = math.max(1, math.floor(size * pct / 100))
   return id % special + math.floor(size / 2) - math.floor(size * pct / 200)
end

local distributions = {special = special_id, uniform = uniform_id, gaussian = gaussian_id}

local function random_id()
   return distributions[sysbench.opt.distribution]()
end

-- The first row of a range, so that the range does not end beyond the table.
local function range_start()
   local from = random_id()
   if from + sysbench.opt.range_size > sysbench.opt.table_size then
      from = sysbench.opt.table_size - sysbench.opt.range_size
   end
   return math.max(from, 1)
end

local function random_text(groups)
   local parts = {}
   for i = 1, groups do
      parts[i] = string.format("%d", rnd())
   end
   return table.concat(parts, "-")
end

-- Ids without repetition, over all threads together.
local drawn = 0
local function unique_id()
   local number = sysbench.tid + drawn * sysbench.opt.threads
   drawn = drawn + 1
   return (LARGE_PRIME * (1 + number)) % sysbench.opt.table_size + 1
end

-- Requests: what is to be executed, drawn before anything is --------------------------------------------------

local function has_extra_update()
   if sysbench.opt.extra_update == "auto" then
      return drv:name() == "pgsql"
   end
   return sysbench.opt.extra_update == "on"
end

local function complex(is_read_only)
   local size = sysbench.opt.range_size
   local request = {{"begin"}}
   for _ = 1, 10 do
      table.insert(request, {"point", random_id()})
   end
   for _, kind in ipairs({"range", "range_sum", "range_order"}) do
      local from = range_start()
      table.insert(request, {kind, from, from + size - 1})
   end
   local from = range_start()
   table.insert(request, {"range_distinct", from, from + size})
   if not is_read_only then
      table.insert(request, {"update_key", random_id()})
      table.insert(request, {"update_nokey", random_text(10), random_id()})
      local id = random_id()
      if has_extra_update() then
         table.insert(request, {"update_key", id})
      end
      table.insert(request, {"delete", id})
      table.insert(request, {"insert_again", id})
   end
   table.insert(request, {"commit"})
   return request
end

local requests = {
   complex = function() return complex(false) end,
   ["read-only"] = function() return complex(true) end,
   simple = function() return {{"point", random_id()}} end,
   ["nontrx-select"] = function() return {{"point_pad", random_id()}} end,
   ["nontrx-update-key"] = function() return {{"update_key", random_id()}} end,
   ["nontrx-update-nokey"] = function() return {{"update_nokey", random_text(10), random_id()}} end,
   ["nontrx-insert"] = function() return {{"insert", random_id(), random_text(10), random_text(5)}} end,
   ["nontrx-delete"] = function() return {{"delete", unique_id()}} end,
}

-- Statements -------------------------------------------------------------------------------------------------

local t = sysbench.sql.type
local INT, C, PAD_TYPE = {t.INT}, {t.CHAR, 120}, {t.CHAR, 60}
local definitions = {
   begin = {"BEGIN"},
   commit = {"COMMIT"},
   point = {"SELECT c FROM sbtest WHERE id=?", INT},
   point_pad = {"SELECT pad FROM sbtest WHERE id=?", INT},
   range = {"SELECT c FROM sbtest WHERE id BETWEEN ? AND ?", INT, INT},
   range_sum = {"SELECT SUM(k) FROM sbtest WHERE id BETWEEN ? AND ?", INT, INT},
   range_order = {"SELECT c FROM sbtest WHERE id BETWEEN ? AND ? ORDER BY c", INT, INT},
   range_distinct = {"SELECT DISTINCT c FROM sbtest WHERE id BETWEEN ? AND ? ORDER BY c", INT, INT},
   update_key = {"UPDATE sbtest SET k=k+1 WHERE id=?", INT},
   update_nokey = {"UPDATE sbtest SET c=? WHERE id=?", C, INT},
   delete = {"DELETE FROM sbtest WHERE id=?", INT},
   insert_again = {"INSERT INTO sbtest VALUES(?,0,' ','" .. PAD_AGAIN .. "')", INT},
   insert = {"INSERT INTO sbtest(k,c,pad) VALUES(?,?,?)", INT, C, PAD_TYPE},
}

local statements, parameters

local function prepare_statements()
   statements, parameters = {}, {}
   for name, definition in pairs(definitions) do
      local statement = con:prepare(definition[1])
      local bound = {}
      for i = 2, #definition do
         bound[i - 1] = statement:bind_create(definition[i][1], definition[i][2])
      end
      if #bound > 0 then
         statement:bind_param(unpack(bound))
      end
      statements[name], parameters[name] = statement, bound
   end
end

function init()
   if sysbench.opt.mix == "nontrx-insert" then
      sysbench.sql.driver():connect():query("TRUNCATE TABLE sbtest")
   end
end

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   prepare_statements()
end

function thread_done()
   for _, statement in pairs(statements) do
      statement:close()
   end
   con:disconnect()
end

local pending -- a request that a deadlock broke off is issued again as it was

function event()
   pending = pending or requests[sysbench.opt.mix]()
   for _, query in ipairs(pending) do
      local name = query[1]
      for i, parameter in ipairs(parameters[name]) do
         parameter:set(query[i + 1])
      end
      if name == "commit" and before_commit ~= nil then
         before_commit()
      end
      statements[name]:execute()
   end
   pending = nil
end

function sysbench.hooks.before_restart_event(err)
   -- The connection was lost: CR_SERVER_GONE_ERROR, CR_TCP_CONNECTION, CR_SERVER_LOST and its extended form.
   if ({[2006] = true, [2011] = true, [2013] = true, [2055] = true})[err.sql_errno] then
      prepare_statements()
   end
end

-- Commands ---------------------------------------------------------------------------------------------------

local function prepare()
   local drv = sysbench.sql.driver()
   local con = drv:connect()
   local is_postgresql = drv:name() == "pgsql"
   con:query(string.format(
      "CREATE TABLE sbtest (id %s, k INTEGER %s DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, " ..
         "pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) %s",
      is_postgresql and "SERIAL NOT NULL" or "INTEGER UNSIGNED NOT NULL AUTO_INCREMENT",
      is_postgresql and "" or "UNSIGNED",
      is_postgresql and "" or "ENGINE=InnoDB"))
   con:query("CREATE INDEX k ON sbtest(k)")
   local row = "(0,' ','" .. PAD .. "')"
   for first = 1, sysbench.opt.table_size, ROWS_PER_INSERT do
      local count = math.min(ROWS_PER_INSERT, sysbench.opt.table_size - first + 1)
      con:query("INSERT INTO sbtest(k, c, pad) VALUES " .. string.rep(row .. ",", count - 1) .. row)
   end
end

-- Print ids, to see that they are distributed as they should be.
local function sample()
   for _ = 1, sysbench.opt.samples do
      print(string.format("%d %d", random_id(), range_start()))
   end
end

sysbench.cmdline.commands = {prepare = {prepare}, sample = {sample}}
