/* The control thread of a job. */
#ifndef RD_JOB_THREAD_H
#define RD_JOB_THREAD_H

#include "bootstrap/job.h"

/* The thread of its parent's job serves the control connection from now on; NULL: a new job's. */
int rd_job_start(struct rd_control *control, struct rd_job *parents);

#endif
