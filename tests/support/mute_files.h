/* A file system that does not answer, as NFS whose server is down: one of FUSE, with this process
   as its server. A process that opens a file there is in state D: SIGKILL does not end it. */
#ifndef MUTE_FILES_H
#define MUTE_FILES_H

struct mute_files {
	char file[64]; /* a path there; its folder is empty outside */
	int fd; /* the server's side. Requests end once no process holds it, the stuck one too */
};

/* Mounts it, for this process and its children alone. Skips the test where that is impossible. */
void mute_files_mount(struct mute_files *files);
/* Waits until a process is stuck there. */
void mute_files_await(const struct mute_files *files);
/* Frees all that are stuck. */
void mute_files_unmount(struct mute_files *files);

#endif
