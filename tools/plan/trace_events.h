/*
 * The events of a trace's file, one after the other. The file is JSON as Chrome and Perfetto read
 * it: an array of events, or an object with that as "traceEvents", on lines of any length; or one
 * event after the other (JSON Lines). An array of its own may lack its end, and several files may
 * follow each other. A byte order mark may begin each. Only one event at a time is in memory.
 */
#ifndef PLAN_TRACE_EVENTS_H
#define PLAN_TRACE_EVENTS_H

#include <stddef.h>
#include <stdio.h>

#define PLAN_TRACE_EVENT_BYTES 4096 /* of an event's text, at most */

/* Takes the text of an event, which may yet be no JSON, and the line where it begins. Returns 0 or
   an error, which ends the reading. */
typedef int plan_trace_event(void *context, int line, const char *text, size_t length);

/* Returns 0, the first error of `take`, or an error with its reason, which names the line. `path`
   stands for the file in reasons. */
int plan_trace_events_read(FILE *file, const char *path, plan_trace_event *take, void *context);

#endif
