/* The end of a control connection, for its beginning and the control thread. */
#ifndef RD_CONTROL_LEAVE_H
#define RD_CONTROL_LEAVE_H

#include "bootstrap/control_state.h"

/* One more of this process, which leaves when it ends; until rd_control_free(). */
void rd_control_enlist(struct rd_control *control);

/* Ends its connections; the thread does, when it lets go of it. */
void rd_control_close(struct rd_control *control);
/* After the thread has let go of it, or never had it. */
void rd_control_free(struct rd_control *control);

#endif
