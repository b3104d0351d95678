/* The executor once more, for calls that are traced. So the one of exec.c does not ask, and a short
   call has no instruction more. */
#include "base/hot_call.h"
#include "exec/trace.h"

#undef RD_HOT_CALL
#define RD_HOT_CALL
#define RD_TRACED
#define rd_exec_step rd_exec_step_traced
#include "exec/exec.c" /* NOLINT(bugprone-suspicious-include) */
