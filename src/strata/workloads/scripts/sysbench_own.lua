-- SPDX-License-Identifier: Apache-2.0
--
-- A study's own transaction: the statements of STATEMENTS, each ended by a semicolon at the end of a line.
-- :id and :id2 to :id9 are numbers from 1 to :rows, by rand-type, drawn once for each transaction; :text is
-- 100 random digits.

sysbench.cmdline.options = {
   tables = {"Number of tables", 1},
   table_size = {"The largest :id", 10000},
}

local statements = {}
for statement in (STATEMENTS .. "\n"):gmatch("(.-);%s*\n") do
   statements[#statements + 1] = statement
end

function thread_init()
   con = sysbench.sql.driver():connect()
end

function thread_done()
   con:disconnect()
end

function sysbench.hooks.before_restart_event()
   con:query("ROLLBACK")
end

function event()
   local drawn = {rows = tostring(sysbench.opt.table_size)}
   local function value(colons, name)
      if colons ~= ":" or not (name == "rows" or name == "text" or name:match("^id[2-9]?$")) then
         return colons .. name -- a cast of PostgreSQL, or text
      end
      if drawn[name] == nil then
         drawn[name] = name == "text" and sysbench.rand.string(("#"):rep(100))
            or tostring(sysbench.rand.default(1, sysbench.opt.table_size))
      end
      return drawn[name]
   end
   for number, statement in ipairs(statements) do
      if number == #statements and before_commit ~= nil then
         before_commit()
      end
      con:query((statement:gsub("(:+)(%a[%w_]*)", value)))
   end
end
