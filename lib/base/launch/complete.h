/* Settings that the launcher's variables give, where neither the program nor the user does. */
#ifndef RD_LAUNCH_COMPLETE_H
#define RD_LAUNCH_COMPLETE_H

#include "base/settings.h"

/*
 * Fills in rank and size where they are -1, address where it is empty, and port where it is 0; sets
 * local_rank, process and pmi_fd. With pmi_fd the port stays 0: any that is free. Without a
 * launcher rank and size stay -1. After an error of the launcher's variables (RONDO_SETTING) all is
 * filled in but what they would have given.
 */
int rd_launch_complete(struct rd_settings *settings);

#endif
