/*
 * vfs/export.h - what is exported to whom: exports(5) lines, and the table made of them.
 *
 * A table is immutable once built; reload builds a new one and swaps it in. Views are refcounted pieces of a table: a call holds the view it began with
 * until it ends, so a reload never pulls options from under it. An export whose directory is missing stays in the table, marked absent, and is looked
 * for again at MNT and at each use.
 */
#ifndef VFS_EXPORT_H
#define VFS_EXPORT_H

#include <sys/socket.h>

#include "vfs/types.h"

struct export_table;

enum export_squash { SQUASH_NONE, SQUASH_ROOT, SQUASH_ALL };
enum export_mode { EXPORT_MODE_BUFFERED, EXPORT_MODE_DONTCACHE, EXPORT_MODE_DIRECT };

/* Options of one client entry of one export, as exports(5) names them. */
struct export_options {
	bool read_only;             /* ro (default), rw */
	bool async;                 /* async: stable_how is honoured all the same for FILE_SYNC data, see README */
	bool insecure;              /* insecure: ports >= 1024 allowed */
	enum export_squash squash;  /* root_squash (default) */
	uint32_t anon_uid, anon_gid;/* 65534 */
	bool has_fsid;
	uint64_t fsid;              /* fsid=NUM, or folded from fsid=UUID; fsid=root or 0 */
	bool sec_sys;               /* sec=sys */
	enum export_mode read_mode, write_mode; /* read_mode=, write_mode=: direct by default */
	bool misaligned_cached;     /* misaligned_dontcache=no */
};

/* One export seen by one client. Fields are immutable. */
struct export_view {
	struct export *export;
	struct export_options options;
	_Atomic unsigned refs;
};

/* One exported directory, shared by its views; refcounted by them and by open files. */
struct export {
	/* immutable after load */
	char *path;
	/* set when the directory is there; protected by the export's lock, see export.c */
	uint64_t id;        /* stable: hash of the file system's identity and the root's kernel handle; first in handles */
	uint64_t fsid;      /* stable file system identity as fattr3.fsid */
	int root_fd;        /* O_PATH directory; also the mount fd for open_by_handle_at */
	int mount_fd;       /* O_RDONLY directory on the same mount */
	struct vfs_fh root_fh;
	_Atomic unsigned refs;
};

/* Start a builder; add lines and files; finish. Errors: -EINVAL with "file:line: what" in errbuf (a clear sentence), nothing changed. */
struct export_table *export_table_new(void);
int export_table_add_line(struct export_table *t, const char *line, const char *file, int lineno, char *errbuf, size_t errlen);
/* exports(5) syntax: comments, continuation lines, quoted paths, \ooo escapes; a directory: every *.exports in it, sorted. Missing file: -ENOENT. */
int export_table_add_file(struct export_table *t, const char *path, char *errbuf, size_t errlen);
/* The command line's 'PATH(options)': every client. Options may lack (defaults: rw for the command line, as README says). */
int export_table_add_cli(struct export_table *t, const char *spec, char *errbuf, size_t errlen);
void export_table_free(struct export_table *t);
/* Make t the current table (takes it over); the old one goes when its last view does. Fills ids, fds and root handles of what is present. */
pool_fn int export_table_install(struct export_table *t);
/* Each export of the current table in turn: for MOUNT EXPORT and the ready line. */
void export_table_each(void (*fn)(void *arg, const struct export *e, const char *client_spec), void *arg);

/*
 * The view of the export that `path` names (MNT; exact match after normalising slashes, or a directory below an export: then *below points at the rest) for
 * a client address. -ENOENT: no such export; -EACCES: not for this client; -ESTALE: absent now. Caller puts it.
 */
noyield_fn int export_view_by_path(const char *path, const struct sockaddr *client, struct export_view **view, const char **below);
/* The view for a handle's export id. -ESTALE: no such export (any more); -EACCES: not for this client. */
noyield_fn int export_view_by_id(uint64_t id, const struct sockaddr *client, struct export_view **view);
noyield_fn void export_view_put(struct export_view *v);
noyield_fn struct export *export_get(struct export *e);
noyield_fn void export_put(struct export *e);
/* Squash: the identity a caller has on this view. A call from a port >= 1024 on a `secure` view: -EACCES. */
noyield_fn int export_map_cred(const struct export_view *v, const struct sockaddr *client, const struct cred *wire, struct cred *out);

#endif
