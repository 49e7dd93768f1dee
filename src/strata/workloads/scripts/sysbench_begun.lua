-- The file --begun is made when the first transaction begins: by then all threads have their connections, and
-- sysbench counts its time from here on.

sysbench.cmdline.options.begun = {"The file that is made when all threads have started", ""}

local execute, has_begun = event, false

function event(thread)
   if not has_begun then
      has_begun = true
      if sysbench.opt.begun ~= "" then
         assert(io.open(sysbench.opt.begun, "w")):close()
      end
   end
   return execute(thread)
end
