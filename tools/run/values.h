/*
 * Readers of the values of rondo-run's options (struct argument, arguments.h). Their targets are
 * members of struct options; those marked "whole" have the struct itself, at offset 0.
 */
#ifndef RUN_VALUES_H
#define RUN_VALUES_H

#include <stdbool.h>

#include "arguments.h"

/* Reads the digits of [text, end), for parts of values. False for other characters, and numbers
   outside the range. */
bool values_digits(const char *text, const char *end, long least, long most, int *value);

/* "2", or "1:4" (whole: nodes_min, nodes). */
bool values_nodes(const struct argument *argument, void *target, const char *text);

/* A number, "cpu", "gpu" or "auto": an int. */
bool values_local_size(const struct argument *argument, void *target, const char *text);

/* "static" or "c10d". */
bool values_backend(const struct argument *argument, void *target, const char *text);

/* "host", "host:29400", "[fd00::1]:29400" (whole: endpoint, endpoint_port). */
bool values_endpoint(const struct argument *argument, void *target, const char *text);

/* "join_timeout=60,last_call_timeout=5" (whole: join_timeout_ms, last_call_ms). */
bool values_rendezvous(const struct argument *argument, void *target, const char *text);

/* An address, IPv6 also in brackets: a const char *, without them. */
bool values_address(const struct argument *argument, void *target, const char *text);

/* The job's id: a const char *. It names a folder. */
bool values_run_id(const struct argument *argument, void *target, const char *text);

/* Seconds, also "0.1": an int in ms. */
bool values_seconds(const struct argument *argument, void *target, const char *text);

/* "3", or "0:1,1:2": struct streams. */
bool values_streams(const struct argument *argument, void *target, const char *text);

/* "0,2": a const char *. */
bool values_list(const struct argument *argument, void *target, const char *text);

/* "SIGTERM,SIGINT" (whole: signals, signal_names). */
bool values_signals(const struct argument *argument, void *target, const char *text);

/* A variable of the environment, "NAME" or "NAME=VALUE" (whole: exports, export_count). */
bool values_export(const struct argument *argument, void *target, const char *text);

/* How torchrun's functions start; rondo-run executes programs alone. */
bool values_start_method(const struct argument *argument, void *target, const char *text);

/* "none", "cores" or "numa": enum bind. */
bool values_bind(const struct argument *argument, void *target, const char *text);

#endif
