/* The control thread of a job. */
#ifndef RD_JOB_THREAD_H
#define RD_JOB_THREAD_H

#include "bootstrap/job.h"

/* Serves the control connection from now on, in its parent's job; NULL: in one of its own. */
int rd_job_start(struct rd_control *control, struct rd_job *parents);

#endif
