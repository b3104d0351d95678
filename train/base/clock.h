#ifndef TRAIN_CLOCK_H
#define TRAIN_CLOCK_H

/* Seconds on the monotonic clock. */
double clock_seconds(void);

#endif
