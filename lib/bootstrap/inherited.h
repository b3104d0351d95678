/*
 * A program that a rank starts inherits the launcher's variables. It would take the rank's place in
 * a comm, or wait for the others in vain.
 */
#ifndef RD_INHERITED_H
#define RD_INHERITED_H

#include "base/settings.h"

/*
 * Sets settings->launch_id. RONDO_SETTING, with a remedy: a process above this one has a comm, as
 * this rank by the same variables. Goes by the names of sockets (bootstrap/status.h), so it needs
 * /proc, and one network namespace.
 */
int rd_refuse_inherited_rank(struct rd_settings *settings);

#endif
