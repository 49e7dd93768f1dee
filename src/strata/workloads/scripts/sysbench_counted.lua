-- What is acknowledged before a power cut: each transaction counts itself in its thread's row of strata_counted,
-- and when its commit has returned, its number is noted in a file outside the stack. COUNTED_FOLDER is the folder
-- of these files; HAS_COMMIT says whether the script itself begins and commits its transactions.

local begin_thread, execute, commit_itself = thread_init, event, commit
local number, note

local function write_note()
   note:seek("set")
   note:write(string.format("%d %d\n", sysbench.tid, number))
end

-- Before the script's own COMMIT.
function before_commit()
   con:query("UPDATE strata_counted SET n = n + 1 WHERE thread = " .. sysbench.tid)
end

if commit_itself ~= nil then
   function commit()
      before_commit()
      commit_itself()
   end
end

function thread_init(thread)
   begin_thread(thread)
   number = 0
   note = assert(io.open(string.format("%s/counted-%d", COUNTED_FOLDER, sysbench.tid), "w"))
   note:setvbuf("no")
   write_note() -- first: a row that a power cut takes owes nothing then
   con:query("DELETE FROM strata_counted WHERE thread = " .. sysbench.tid)
   con:query(string.format("INSERT INTO strata_counted VALUES (%d, 0)", sysbench.tid))
end

function event(thread)
   if HAS_COMMIT then
      execute(thread)
   else
      con:query("BEGIN")
      execute(thread)
      before_commit()
      con:query("COMMIT")
   end
   number = number + 1
   write_note()
end
