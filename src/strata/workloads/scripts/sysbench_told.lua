-- A window that somebody else ends: what was done in each interval is told while it runs, and all threads stop
-- as soon as the first byte of the file --ended is another one than 0. Looking costs no system call.

sysbench.cmdline.options.ended = {"The file whose first byte ends the window", ""}

local ffi = require("ffi")
ffi.cdef [[
int strata_open(const char *, int, ...) __asm__("open");
int strata_truncate(int, long) __asm__("ftruncate");
void *strata_map(void *, size_t, int, int, int, long) __asm__("mmap");
]]
local O_RDWR_CREAT, MODE, PROT_READ, MAP_SHARED = 66, ffi.new("int", 420), 1, 1
local execute, ended = event, nil

function sysbench.hooks.report_intermediate(stat)
   sysbench.report_default(stat)
   io.stderr:write(string.format("strata-interval %d %.0f\n", stat.events, stat.latency_pct * 1e9))
end

function event(thread)
   if ended == nil then
      local file = ffi.C.strata_open(sysbench.opt.ended, O_RDWR_CREAT, MODE)
      assert(ffi.C.strata_truncate(file, 1) == 0, "the file --ended cannot be made")
      ended = ffi.cast("volatile const char *", ffi.C.strata_map(nil, 1, PROT_READ, MAP_SHARED, file, 0))
   end
   if ended[0] ~= 0 then
      return true
   end
   return execute(thread)
end
