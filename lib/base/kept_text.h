/* Texts of settings, kept until the process ends. Each comm has settings, most of them with the
   same paths, and a process may have a thousand comms. */
#ifndef RD_KEPT_TEXT_H
#define RD_KEPT_TEXT_H

/* Equal texts have one copy. Any thread. NULL: no memory, with its reason recorded. */
const char *rd_kept_text(const char *text);

#endif
