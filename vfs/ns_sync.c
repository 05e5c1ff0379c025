/*
 * vfs/ns_sync.c - changes of metadata become durable together.
 *
 * RFC 1813 section 4.8 wants a change on stable storage before it is answered. Changes are made in the pool, many in a turn where they are of one directory, and
 * their jobs are not over then: the thread that made them leaves them in the export's list, and if no other is syncing, it leads. It takes all that wait,
 * syncs for them, sends them home and goes on with those that came meanwhile, until there are none. So each change makes one trip, and no thread waits for
 * another. An error is everybody's in that round.
 *
 * Where a single journal orders all metadata (export.one_sync: XFS, ext4), fsync() writes the journal up to the last change of that inode, and with it every
 * change that was finished before that one began. fsync() of an inode with nothing left in the journal still costs a flush of the device, so the job does not go
 * through all of them: export.change_clock is read before and after each change, the change that began last is synced, those that ended before it began are
 * covered, and so on with the rest, which ran beside it on other threads. Elsewhere each inode is synced, a directory once.
 *
 * A directory keeps the descriptor for it, open until its vfs_file is closed. A file is opened again each time even if its mapping has it open: an error of its data
 * that fsync() reports on the mapping's descriptor would be lost to the mapping. Descriptors are opened with the server's rights: the caller may not be
 * allowed to read.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/pool.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns_job.h"

COUNTER_DEFINE(counter_changes, "ns.changes");
COUNTER_DEFINE(counter_rounds, "ns.sync_rounds");
COUNTER_DEFINE(counter_syncs, "ns.syncs");

pool_fn void ns_sync_begin(struct ns_sync *s)
{
	s->begun = atomic_fetch_add(&s->export->change_clock, 1);
}

pool_fn void ns_sync_end(struct ns_sync *s)
{
	s->ended = atomic_fetch_add(&s->export->change_clock, 1);
}

static void add(struct ns_sync *s, struct ns_sync_inode inode)
{
	ASSERT(s->count < NS_SYNC_INODES);
	s->inodes[s->count++] = inode;
}

noyield_fn void ns_sync_add_path(struct ns_sync *s, int path_fd, uint32_t type)
{
	add(s, (struct ns_sync_inode){ .fd = path_fd, .type = type });
}

noyield_fn void ns_sync_add_dir(struct ns_sync *s, struct vfs_file *dir)
{
	/* One that came through an earlier struct export of the same directory is synced by that one's jobs too. */
	if (dir->export == s->export)
		add(s, (struct ns_sync_inode){ .dir = dir, .fd = -1, .type = S_IFDIR });
	else
		ns_sync_add_path(s, dir->path_fd, S_IFDIR);
}

noyield_fn void ns_sync_add_open(struct ns_sync *s, int fd)
{
	add(s, (struct ns_sync_inode){ .fd = fd, .is_open = true });
}

static int sync_fd(int fd)
{
	const int injected = fault_hit(FAULT_NS_SYNC);

	counter_add(&counter_syncs, 1);
	if (injected)
		return -injected;
	return fsync(fd) ? -errno : 0;
}

/* -1: links, devices and the like cannot be opened for the sake of syncing them. */
static int open_for_sync(int path_fd, uint32_t type)
{
	char path[NS_PROC_PATH];

	if (!S_ISDIR(type) && !S_ISREG(type))
		return -1;
	ns_proc_path(path_fd, path);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (S_ISDIR(type) ? O_DIRECTORY : 0));
}

/* What cannot be opened rarely changes: the whole file system then. */
static int sync_by_path(const struct export *export, int path_fd, uint32_t type)
{
	const int fd = open_for_sync(path_fd, type);
	int err;

	if (fd < 0)
		return syncfs(export->mount_fd) ? -errno : 0;
	err = sync_fd(fd);
	close(fd);
	return err;
}

static int sync_dir(const struct export *export, struct vfs_file *dir)
{
	if (dir->sync_fd < 0)
		dir->sync_fd = open_for_sync(dir->path_fd, S_IFDIR);
	return dir->sync_fd < 0 ? sync_by_path(export, dir->path_fd, S_IFDIR) : sync_fd(dir->sync_fd);
}

static int sync_inode(const struct export *export, const struct ns_sync_inode *inode)
{
	if (inode->dir)
		return sync_dir(export, inode->dir);
	return inode->is_open ? sync_fd(inode->fd) : sync_by_path(export, inode->fd, inode->type);
}

/* The change that began last of those not covered yet. */
static struct ns_sync *latest(const struct ns_sync_list *changes)
{
	struct ns_sync *s, *last = NULL;

	TAILQ_FOREACH(s, changes, link)
		if (!s->covered && (!last || s->begun > last->begun))
			last = s;
	return last;
}

static int sync_journal(const struct export *export, const struct ns_sync_list *changes)
{
	struct ns_sync *last, *s;
	int err = 0;

	while (!err && (last = latest(changes))) {
		err = sync_inode(export, last->inodes + last->count - 1);
		last->covered = true;
		TAILQ_FOREACH(s, changes, link)
			s->covered |= s->ended < last->begun;
	}
	return err;
}

struct round {
	struct export *export;
	struct ns_sync_list changes;
	uint64_t number;
	int err;
};

static int sync_each(const struct round *r)
{
	const struct ns_sync_inode *inode;
	const struct ns_sync *s;
	int err = 0;

	TAILQ_FOREACH(s, &r->changes, link)
		for (unsigned i = 0; i < s->count && !err; i++) {
			inode = s->inodes + i;
			if (inode->dir && inode->dir->synced_round == r->number)
				continue;
			err = sync_inode(r->export, inode);
			if (inode->dir)
				inode->dir->synced_round = r->number;
		}
	return err;
}

static void round_main(void *arg)
{
	struct round *r = arg;
	const struct ns_sync *s;

	r->err = r->export->one_sync ? sync_journal(r->export, &r->changes) : sync_each(r);
	TAILQ_FOREACH(s, &r->changes, link)
		for (unsigned i = 0; i < s->count; i++)
			if (s->inodes[i].is_open)
				close(s->inodes[i].fd);
}

/* Changes that wait become a round; false: none do, and whoever comes next leads. */
static bool round_begin_locked(struct round *r)
{
	struct export *export = r->export;

	TAILQ_INIT(&r->changes);
	TAILQ_CONCAT(&r->changes, &export->sync_waiting, link);
	r->number = ++export->sync_round;
	export->sync_running = !TAILQ_EMPTY(&r->changes);
	return export->sync_running;
}

/* Everybody of the round knows, and goes home. */
static void round_over(struct ns_sync_list *changes, int err)
{
	struct ns_sync *s;

	while ((s = TAILQ_FIRST(changes))) {
		TAILQ_REMOVE(changes, s, link);
		s->err = err;
		pool_job_over(s->job);
	}
}

/* Round after round, until nobody waits. The changes of the round that is over keep the export until it is known whether there is another. */
static pool_fn void lead(struct export *export)
{
	struct round r = { .export = export };
	struct ns_sync_list done;
	bool more;
	int err;

	leaf_lock(&export->sync_lock);
	more = round_begin_locked(&r);
	leaf_unlock(&export->sync_lock);
	while (more) {
		counter_add(&counter_rounds, 1);
		round_main(&r);
		err = r.err;
		TAILQ_INIT(&done);
		TAILQ_CONCAT(&done, &r.changes, link);
		leaf_lock(&export->sync_lock);
		more = round_begin_locked(&r);
		leaf_unlock(&export->sync_lock);
		round_over(&done, err);
	}
}

/* The changes of one turn: what needs no sync is over, the rest waits for the next round; nobody syncs yet: this thread does. */
static void changes_end(struct pool_job *jobs)
{
	struct export *export = ((struct ns_sync *)pool_job_arg(jobs))->export;
	struct ns_sync_list wait;
	struct pool_job *next;
	struct ns_sync *s;
	bool leads;

	TAILQ_INIT(&wait);
	for (; jobs; jobs = next) {
		next = pool_job_next(jobs);
		s = pool_job_arg(jobs);
		s->job = jobs;
		if (s->count)
			TAILQ_INSERT_TAIL(&wait, s, link);
		else
			pool_job_over(jobs);
	}
	if (TAILQ_EMPTY(&wait))
		return;
	leaf_lock(&export->sync_lock);
	TAILQ_CONCAT(&export->sync_waiting, &wait, link);
	leads = !export->sync_running;
	export->sync_running = true;
	leaf_unlock(&export->sync_lock);
	if (leads)
		lead(export);
}

static void change_main(void *arg)
{
	struct ns_sync *s = arg;

	s->fn(s->arg);
	ASSERT(!s->count || s->ended > s->begun);
	counter_add(&counter_changes, s->count != 0);
}

fiber_fn int ns_change(struct ns_sync *s, struct vfs_file *file, pool_main *fn, void *arg, const struct cred *cred)
{
	s->export = file->export;
	s->fn = fn;
	s->arg = arg;
	pool_run_shared(S_ISDIR(file->type) ? &file->lane : NULL, change_main, changes_end, s, cred);
	return s->err;
}
