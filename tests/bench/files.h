/*
 * files.h: many files instead of one: a pattern of nfsload.
 */
#ifndef TESTS_BENCH_FILES_H
#define TESTS_BENCH_FILES_H

struct client;
struct fh;
struct watch;

/*
 * Creates COUNT files in a directory of their own under DIR, writes a record of 47008 bytes to each (FILE_SYNC), again and again for SECONDS but each file at
 * least once, and reads them likewise; prints a line per phase. The files stay: the server has them open when this returns.
 */
void files_run(struct client *c, const struct fh *dir, unsigned count, double seconds, const struct watch *w);

#endif
