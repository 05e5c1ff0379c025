/*
 * tests/unit/vfs_harness.h - real file systems and a running file system layer for the tests of vfs/.
 *
 * Everything is mounted in a mount namespace of the test's own process, below a tmpfs that only it sees: it all goes away with the process, however that
 * ends, loop devices included. What is asserted on fibers or pool threads is asserted with ASSERT().
 */
#ifndef TESTS_UNIT_VFS_HARNESS_H
#define TESTS_UNIT_VFS_HARNESS_H

#include <criterion/criterion.h>

#include "vfs/types.h"

struct vfs_file;
struct export_view;

/* Where scratch_fs() mounts, and room for other things beside it. */
#define SCRATCH "/mnt"
#define SCRATCH_FS "/mnt/fs"

/* Enter an own mount namespace with an empty tmpfs on SCRATCH. Not root, or not allowed: the test is skipped with the reason. */
void scratch_begin(void);
/* After scratch_begin(): "tmpfs", or "ext4" or "xfs" on a loop device, on SCRATCH_FS. */
void scratch_fs(const char *type);
void scratch_mount_again(const char *type);
void scratch_umount(void);

enum { HARNESS_FILES = 256 }; /* bound of the open-file cache */

/* Export SCRATCH_FS with these options (exports(5), appended to rw,insecure) and start caches; fn() runs on a fiber of a runtime of its own. */
void vfs_harness_run(const char *options, void (*fn)(void));
/* fn() on a fiber of each of so many reactors, at once. */
void vfs_harness_run_on(unsigned reactors, const char *options, void (*fn)(void));
/* What the open files of the next run may take; as many as they can have otherwise. */
void harness_descriptors(unsigned max);
/* fn() is called in the next run when the view is there, before the runtime starts. */
void harness_before(void (*fn)(void));
/* Inside: the view of SCRATCH_FS for a loopback client (reference for the test's life), a call by `cred`, and the root, referenced. */
struct export_view *harness_view(void);
/* Mount another such file system over SCRATCH_FS and read the exports again. The view that is found then, referenced. */
void harness_put_another(const char *type);
struct export_view *harness_view_now(void);
struct vfs_call harness_call(uint32_t uid, uint32_t gid);
struct vfs_file *harness_root(void);
struct vfs_name harness_name(const char *text);

#endif
