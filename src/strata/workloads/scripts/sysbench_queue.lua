-- How long transactions take without the time that they waited in sysbench's queue, which its latencies hold
-- in an open loop. Each thread prints its sum when it ends, without those of the first WARMUP_S seconds.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long s; long ns; } strata_time_t;
int strata_clock(int, strata_time_t *) __asm__("clock_gettime");
]]
local CLOCK_MONOTONIC = 1
local buffer = ffi.new("strata_time_t")

local function now_ns()
   ffi.C.strata_clock(CLOCK_MONOTONIC, buffer)
   return tonumber(buffer.s) * 1e9 + tonumber(buffer.ns)
end

local execute, finish = event, thread_done
local count, sum_ns, begun_ns, first_ns = 0, 0, nil, nil

function event(thread)
   -- A deadlock breaks off, and sysbench calls again.
   begun_ns = begun_ns or now_ns()
   first_ns = first_ns or begun_ns
   local result = execute(thread)
   local ended_ns = now_ns()
   if ended_ns - first_ns >= WARMUP_S * 1e9 then
      count, sum_ns = count + 1, sum_ns + ended_ns - begun_ns
   end
   begun_ns = nil
   return result
end

function thread_done(thread)
   finish(thread)
   print(string.format("strata: %d transactions executed in %.0f ns", count, sum_ns))
end
