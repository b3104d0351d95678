/* The command `rondo-train plot`. */
#ifndef TRAIN_PLOT_H
#define TRAIN_PLOT_H

/* argv[0] is "plot". Returns 0, or fails with one line. */
int plot_command(int argc, char **argv);

#endif
