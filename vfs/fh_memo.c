/*
 * vfs/fh_memo.c - handles that were made lately.
 *
 * A listing with handles (READDIRPLUS) needs two system calls for each entry, each of which looks the name up: one for the attributes, which must be of now,
 * and one for the handle, which is the same for the life of the inode. Handles are kept here, by export, inode number and time of birth. An inode number
 * may come back, also within the same tick of the clock that stamps births; so only what was born some ticks ago is kept: a later inode of that number has
 * a later birth. (A clock that is set back could bring the same nanosecond again, in theory; what would come of it is a stale handle.) That holds for XFS, ext4
 * and tmpfs. It does not where snapshots have the inode numbers and births of what they were taken of (btrfs, bcachefs): of these nothing is kept.
 *
 * A fixed table without chains: what falls on a used place replaces it. Inode numbers next to each other have places next to each other, for files made together
 * are listed together, and the processor then has the next places ready. Each lock guards its part of the table; they are leaf locks. Nothing is referenced.
 */
#include "vfs/fh_memo.h"

#include <assert.h>
#include <linux/magic.h>
#include <sys/stat.h>

#include "runtime/clock.h"
#include "runtime/sync.h"
#include "vfs/export.h"

enum { PLACES = 32768, LOCKS = 64, NEIGHBOURS = 64, PLACES_PER_LOCK = 16 };

static const int64_t settle_ns = 100000000;

struct memo {
	uint64_t export_id, ino;
	int64_t born_ns;            /* 0: a free place */
	struct vfs_fh fh;
};

static struct memo places[PLACES];
static struct leaf_lock locks[LOCKS] = { [0 ... LOCKS - 1] = LEAF_LOCK_INIT };

static int64_t ns_of(const struct statx_timestamp *t)
{
	return t->tv_sec * 1000000000 + t->tv_nsec;
}

/* 0: not known. */
static int64_t born(const struct statx *stx)
{
	return stx->stx_mask & STATX_BTIME ? ns_of(&stx->stx_btime) : 0;
}

static bool is_past(int64_t ns)
{
	const struct timespec now = clock_real();

	return ns < now.tv_sec * 1000000000 + now.tv_nsec - settle_ns;
}

static unsigned place_of(uint64_t export_id, uint64_t ino)
{
	const unsigned group = (ino / NEIGHBOURS ^ export_id) * 0x9e3779b97f4a7c15 >> 55;

	return group * NEIGHBOURS + ino % NEIGHBOURS;
}
static_assert(PLACES == NEIGHBOURS << (64 - 55), "a group of places for each hash");

static struct leaf_lock *lock_of(unsigned place)
{
	return locks + place / PLACES_PER_LOCK % LOCKS;
}

noyield_fn unsigned vfs_fh_memo_mask(const struct export *export)
{
	const uint32_t magic = export->fs_magic;

	return magic == XFS_SUPER_MAGIC || magic == EXT4_SUPER_MAGIC || magic == TMPFS_MAGIC ? STATX_BTIME : 0;
}

pool_fn bool vfs_fh_memo_settled(const struct statx *stx)
{
	return is_past(ns_of(&stx->stx_ctime));
}

pool_fn bool vfs_fh_memo_find(uint64_t export_id, const struct statx *stx, struct vfs_fh *fh)
{
	const int64_t born_ns = born(stx);
	const unsigned at = place_of(export_id, stx->stx_ino);
	const struct memo *m = places + at;
	bool found;

	leaf_lock(lock_of(at));
	found = born_ns && m->born_ns == born_ns && m->ino == stx->stx_ino && m->export_id == export_id;
	if (found)
		*fh = m->fh;
	leaf_unlock(lock_of(at));
	return found;
}

pool_fn void vfs_fh_memo_keep(uint64_t export_id, const struct statx *stx, const struct vfs_fh *fh)
{
	const int64_t born_ns = born(stx);
	const unsigned at = place_of(export_id, stx->stx_ino);

	if (!born_ns || !is_past(born_ns))
		return;
	leaf_lock(lock_of(at));
	places[at] = (struct memo){ .export_id = export_id, .ino = stx->stx_ino, .born_ns = born_ns, .fh = *fh };
	leaf_unlock(lock_of(at));
}
