#ifndef TRAIN_CLOCK_H
#define TRAIN_CLOCK_H

/* Seconds since some moment in the past; never runs backwards. */
double clock_seconds(void);

#endif
