/*
 * metadata.h: the metadata mix of nfsload.
 */
#ifndef TESTS_BENCH_METADATA_H
#define TESTS_BENCH_METADATA_H

struct client;
struct fh;
struct watch;

/*
 * Creates, looks up, stats, lists, renames and removes 10 000 files in a directory of its own under DIR, as deep as the client has workers;
 * prints a line per phase.
 */
void metadata_run(struct client *c, const struct fh *dir, const struct watch *w);

#endif
