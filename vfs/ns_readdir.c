/*
 * vfs/ns_readdir.c - READDIR and READDIRPLUS.
 *
 * One job opens the directory anew under the caller's identity (the kernel judges the right to read), seeks to the cookie and collects entries; the kernel is
 * asked for about as many as the page takes. A cookie is the
 * kernel's d_off, "what comes after this entry": a hash on ext4, a position on XFS and btrfs, a number that is never used again on tmpfs. All of them
 * stay good when entries come and go: the kernel goes on with the nearest one behind. So the verifier is constant, and no cookie is ever refused
 * but one that the kernel cannot seek to.
 *
 * A page ends before the entry that would exceed the caller's budget, and says eof only when the kernel said so. With handles and attributes, an entry that
 * vanished meanwhile or cannot be opened goes without; so does what lies under another mount where the export has no private copy. ".." at the root is the root.
 *
 * Handle and attributes are of one object if both are taken of one descriptor. On a private copy of the mount, where no name leads elsewhere, they are taken by
 * name instead, at half the cost, and are believed if the inode is the one that the listing named and if the directory has not changed when the page is
 * done; otherwise the entries are opened after all. Handles that were made before are known (vfs/fh_memo.c); new ones are kept when they are believed.
 *
 * Names are read first, then what belongs to them is found, on a long page by workers side by side: each takes the next few entries, under the caller's identity,
 * and writes to these alone. What the page as a whole needs (its names, what was asked for, whether by name) does not change meanwhile.
 *
 * The list grows in memory that vfs_dirlist_free() returns; names lie in one block, each with a NUL, and are pointed at when it no longer moves.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/pool.h"
#include "vfs/attr.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/fh_memo.h"
#include "vfs/file.h"
#include "vfs/ns.h"
#include "vfs/ns_job.h"

/* entry3 on the wire: follows 4, fileid 8, length 4, cookie 8, and the name in whole words. A page has a bound of our own, whatever the client asks for. */
enum { ENTRY_WIRE_BYTES = 24, KERNEL_BUFFER_BYTES = 32768, PAGE_BYTES_MAX = 256 * 1024, ENTRIES_FIRST = 64 };
/* The kernel's buffer must hold an entry: a file system may have names of 255 characters of three bytes. */
enum { KERNEL_BYTES_MIN = 1024 };
/* A page of fewer entries than SHARED_MIN is not worth waking others, of whom HELPERS are asked; each takes PART entries at once. */
enum { SHARED_MIN = 32, HELPERS = 3, PART = 16 };

/* Of an entry whose handle was made by name. */
struct made {
	bool valid;
	struct statx_timestamp born;
	uint32_t mask;
};

struct page {
	struct vfs_dirent *entries;
	struct made *made;          /* of each entry */
	unsigned count, room;
	char *names;
	size_t names_len, names_room;
	size_t wire_bytes;
};

struct readdir_job {
	struct vfs_file *dir;
	uint64_t cookie;
	uint32_t bytes;
	bool plus;
	const struct cred *cred;
	bool by_name;
	_Atomic unsigned next;      /* entry to find: workers count it up */
	int err;
	bool eof;
	struct page page;
	bool dir_valid;
	struct statx dir_stx;
};

static bool grow(void **mem, size_t size)
{
	void *grown = realloc(*mem, size);

	if (grown)
		*mem = grown;
	return grown;
}

static int page_make_room(struct page *p, size_t name_len)
{
	const unsigned room = p->room ? 2 * p->room : ENTRIES_FIRST;

	if (p->count == p->room) {
		if (!grow((void **)&p->entries, room * sizeof(*p->entries)) || !grow((void **)&p->made, room * sizeof(*p->made)))
			return -ENOMEM;
		p->room = room;
	}
	if (p->names_len + name_len > p->names_room) {
		if (!grow((void **)&p->names, 2 * p->names_room + KERNEL_BUFFER_BYTES))
			return -ENOMEM;
		p->names_room = 2 * p->names_room + KERNEL_BUFFER_BYTES;
	}
	return 0;
}

static bool find_by_name(struct readdir_job *j, struct vfs_dirent *e, struct made *made)
{
	const struct vfs_file *dir = j->dir;
	const unsigned mask = vfs_fh_memo_mask(dir->export);
	struct statx stx;

	if (!dir->export->private_mount || ns_name_is_dots(e->name.data))
		return false;
	if (statx(dir->path_fd, e->name.data, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | mask, &stx) || stx.stx_ino != e->fileid)
		return false;
	vfs_attr_from_statx(dir->export, &stx, &e->node.attr);
	stx.stx_mask &= STATX_BASIC_STATS | mask; /* the kernel may tell births unasked */
	if (vfs_fh_memo_find(dir->export->id, &stx, &e->node.fh))
		return true;
	if (vfs_fh_from_name(dir->export->id, dir->path_fd, e->name.data, &e->node.fh))
		return false;
	*made = (struct made){ .valid = true, .born = stx.stx_btime, .mask = stx.stx_mask };
	return true;
}

/* Opened, identified, measured; false: it goes without. */
static bool find_by_opening(const struct readdir_job *j, struct vfs_dirent *e)
{
	const char *name = e->name.data;
	struct ns_found found;
	const bool up = !strcmp(name, "..");
	int fd;
	bool ok;

	if (up && !ns_is_root(j->dir) && !j->dir->export->private_mount)
		return false;
	fd = ns_open_child(j->dir, up && ns_is_root(j->dir) ? "." : name);
	ok = fd >= 0 && !ns_found_from_fd(j->dir->export, fd, &found);
	if (fd >= 0)
		close(fd);
	if (!ok)
		return false;
	e->node.fh = found.fh;
	e->fileid = found.stx.stx_ino;
	vfs_attr_from_statx(j->dir->export, &found.stx, &e->node.attr);
	return true;
}

static void find(struct readdir_job *j, unsigned i)
{
	struct vfs_dirent *e = j->page.entries + i;
	struct made *made = j->page.made + i;

	made->valid = false;
	e->has_node = (j->by_name && find_by_name(j, e, made)) || find_by_opening(j, e);
}

/* Until none is left; others may do the same. */
static void find_next(void *arg)
{
	struct readdir_job *j = arg;
	unsigned i, end;

	while ((i = atomic_fetch_add(&j->next, PART)) < j->page.count)
		for (end = min_u64(i + PART, j->page.count); i < end; i++)
			find(j, i);
}

static void find_all(struct readdir_job *j, bool by_name)
{
	j->by_name = by_name;
	j->next = 0;
	if (j->page.count < SHARED_MIN)
		find_next(j);
	else
		pool_share(find_next, j, j->cred, HELPERS);
}

/* 1: the page is full. */
static int page_add(struct readdir_job *j, const struct dirent64 *d)
{
	const size_t len = strlen(d->d_name), wire = ENTRY_WIRE_BYTES + align_up(len, 4);
	struct page *p = &j->page;
	struct vfs_dirent *e;

	if (p->count && p->wire_bytes + wire > j->bytes)
		return 1;
	if (page_make_room(p, len + 1))
		return -ENOMEM;
	e = p->entries + p->count;
	e->fileid = d->d_ino;
	e->cookie = d->d_off;
	e->name = (struct vfs_name){ .len = len };
	e->has_node = false;
	if (!strcmp(d->d_name, "..") && ns_is_root(j->dir))
		e->fileid = j->dir->fileid;
	memcpy(p->names + p->names_len, d->d_name, len + 1);
	p->names_len += len + 1;
	p->count++;
	p->wire_bytes += wire;
	return 0;
}

/* 0, 1 as page_add(). */
static int page_add_all(struct readdir_job *j, const char *kernel, ssize_t len)
{
	const struct dirent64 *d;
	int err = 0;

	for (ssize_t at = 0; at < len && !err; at += d->d_reclen) {
		d = (const void *)(kernel + at);
		err = page_add(j, d);
	}
	return err;
}

/* An entry takes about as much in the kernel's buffer as on the wire. */
static size_t kernel_bytes(const struct readdir_job *j)
{
	const size_t left = j->bytes > j->page.wire_bytes ? j->bytes - j->page.wire_bytes : 0;

	return max_u64(KERNEL_BYTES_MIN, min_u64(left, KERNEL_BUFFER_BYTES));
}

/* The names no longer move. */
static void page_point_at_names(struct page *p)
{
	const char *name = p->names;

	for (unsigned i = 0; i < p->count; i++) {
		p->entries[i].name.data = name;
		name += p->entries[i].name.len + 1;
	}
}

static int read_page(struct readdir_job *j, int fd, char *kernel)
{
	ssize_t n;
	int err;

	if (j->cookie && lseek(fd, j->cookie, SEEK_SET) < 0)
		return errno == EINVAL || errno == EOVERFLOW ? -ENOTNAM : -errno;
	do {
		n = syscall(SYS_getdents64, fd, kernel, kernel_bytes(j));
		if (n < 0)
			return errno == ENOENT ? -ESTALE : -errno;
		err = page_add_all(j, kernel, n);
	} while (n && !err);
	j->eof = !n;
	page_point_at_names(&j->page);
	return err < 0 ? err : 0;
}

static bool same_change(const struct statx *a, const struct statx *b)
{
	return a->stx_ctime.tv_sec == b->stx_ctime.tv_sec && a->stx_ctime.tv_nsec == b->stx_ctime.tv_nsec;
}

/* Nothing has changed since long before: name, handle and attributes are of one inode each. */
static void keep_made(const struct readdir_job *j)
{
	const struct made *m = j->page.made;
	struct statx stx = { 0 };

	for (unsigned i = 0; i < j->page.count; i++, m++) {
		if (!m->valid)
			continue;
		stx.stx_ino = j->page.entries[i].fileid;
		stx.stx_btime = m->born;
		stx.stx_mask = m->mask;
		vfs_fh_memo_keep(j->dir->export->id, &stx, &j->page.entries[i].node.fh);
	}
}

/* Through /proc, so that the right to read the directory is enough: by "." the right to search it would be needed too. */
static int open_directory(const struct vfs_file *dir)
{
	char path[NS_PROC_PATH];
	int fd;

	ns_proc_path(dir->path_fd, path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* What was found by name is believed if the directory has not changed since. */
static void believe(struct readdir_job *j, bool unchanged, const struct statx *before)
{
	if (!unchanged)
		find_all(j, false);
	else if (vfs_fh_memo_settled(before))
		keep_made(j);
}

static void readdir_main(void *arg)
{
	struct readdir_job *j = arg;
	char *kernel = malloc(KERNEL_BUFFER_BYTES);
	struct statx before;
	const bool before_valid = !statx(j->dir->path_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &before);
	const int fd = kernel ? open_directory(j->dir) : -ENOMEM;
	bool find;

	j->err = fd < 0 ? fd : read_page(j, fd, kernel);
	if (fd >= 0)
		close(fd);
	free(kernel);
	find = j->plus && !j->err;
	if (find)
		find_all(j, true);
	j->dir_valid = !statx(j->dir->path_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &j->dir_stx);
	if (find)
		believe(j, before_valid && j->dir_valid && same_change(&before, &j->dir_stx), &before);
}

static void page_free(struct page *p)
{
	free(p->entries);
	free(p->made);
	free(p->names);
}

struct dirlist {
	struct vfs_dirlist list;
	char *names;
};

static struct vfs_dirlist *page_to_list(const struct readdir_job *j)
{
	struct dirlist *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	free(j->page.made);
	l->names = j->page.names;
	l->list.entries = j->page.entries;
	l->list.count = j->page.count;
	l->list.eof = j->eof;
	for (unsigned i = 0; i < l->list.count; i++) {
		struct vfs_dirent *e = l->list.entries + i;

		if (e->has_node)
			vfs_attr_overlay(&e->node.fh, &e->node.attr);
	}
	return &l->list;
}

fiber_fn int vfs_readdir(const struct vfs_call *call, struct vfs_file *dir, uint64_t cookie, const uint8_t verf[8], uint32_t bytes, bool plus,
			 struct vfs_dirlist **list, struct vfs_attr *dir_attr, bool *dir_attr_valid)
{
	struct readdir_job j = { .dir = dir, .cookie = cookie, .bytes = min_u64(bytes, PAGE_BYTES_MAX), .plus = plus, .cred = &call->cred };

	*list = NULL;
	if (!S_ISDIR(dir->type)) {
		*dir_attr_valid = !vfs_getattr(dir, dir_attr);
		return -ENOTDIR;
	}
	pool_run(readdir_main, &j, &call->cred);
	*dir_attr_valid = j.dir_valid;
	if (j.dir_valid)
		vfs_attr_from_statx(dir->export, &j.dir_stx, dir_attr);
	if (!j.err)
		*list = page_to_list(&j);
	if (!*list)
		page_free(&j.page);
	return *list ? 0 : j.err ? j.err : -ENOMEM;
}

noyield_fn void vfs_dirlist_free(struct vfs_dirlist *list)
{
	struct dirlist *l = list ? container_of(list, struct dirlist, list) : NULL;

	if (!l)
		return;
	free(list->entries);
	free(l->names);
	free(l);
}
