/*
 * server/main.c - nfsdirectd: starts the layers bottom up, serves, and ends them in reverse.
 *
 * Signals are blocked in every thread and taken by one of their own with sigwait(): it may block, so a reload resolves and opens exports right there, and a
 * dump writes where it likes. It is told to end by SIGTERM like everybody. A reload reads the command line and the configuration as the start did, into a
 * configuration of its own, of which it takes the exports only.
 *
 * --check goes the way of a start as far as the exports, and opens them. It leaves alone what a running server has for itself: addresses, the lock of the state
 * directory, the counters' file.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iocache/mapping.h"
#include "runtime/buf.h"
#include "runtime/counter.h"
#include "runtime/cred.h"
#include "runtime/fiber.h"
#include "runtime/log.h"
#include "server/call.h"
#include "server/config.h"
#include "server/drc.h"
#include "server/mount3.h"
#include "server/notify.h"
#include "server/server.h"
#include "vfs/export.h"
#include "vfs/fh.h"
#include "vfs/file.h"

static struct server_config config;
static struct { int count; char **values; } arguments; /* main()'s */
static struct server_limits limits_asked; /* before they were cut to what descriptors there are */
static const struct rpc_program *const programs[] = { &nfs_program, &mount_program, NULL };

/* --- exports --- */

static int exports_add_file(struct export_table *t, const char *path, const char *where, char *err, size_t errlen)
{
	char what[900];
	int ret = export_table_add_file(t, path, what, sizeof(what));
	/* A bad line in the file names itself. */
	if (ret != 0)
		snprintf(err, errlen, "%s%s%s", ret == -EINVAL ? "" : where, ret == -EINVAL ? "" : "cannot read exports: ", ret == -ENOMEM ? "no memory" : what);
	return ret;
}

static int exports_add_default(struct export_table *t, const char *path, char *err, size_t errlen)
{
	int ret = exports_add_file(t, path, "", err, errlen);
	return ret == -ENOENT ? 0 : ret;
}

static int exports_add(struct export_table *t, const struct server_config *c, char *err, size_t errlen)
{
	int ret = 0;
	for (unsigned i = 0; i < c->export_count && ret == 0; i++) {
		const struct config_export *e = &c->exports[i];
		const char *where = config_where(c, e);
		ret = e->kind == CONFIG_EXPORT_SPEC ? export_table_add_cli(t, e->text, where, err, errlen) : exports_add_file(t, e->text, where, err, errlen);
	}
	if (c->export_count == 0)
		ret = exports_add_default(t, "/etc/exports", err, errlen);
	if (c->export_count == 0 && ret == 0)
		ret = exports_add_default(t, "/etc/exports.d", err, errlen);
	return ret;
}

static void some_present(void *arg, const struct export *e, const char *client) { *(bool *)arg |= e->present; }

static void warn_if_nothing(const struct server_config *c)
{
	bool some = false;
	export_table_each(some_present, &some);
	if (!some)
		log_write(LOG_LEVEL_WARNING, "there is nothing to serve: %s", c->export_count != 0 ? "no export names a directory that is there" :
			  "no export in /etc/exports and /etc/exports.d names a directory that is there, and --export and the configuration give none");
}

/* Read the exports that c names and make them current. On an error the old ones stay. */
static int exports_load(const struct server_config *c, char *err, size_t errlen)
{
	snprintf(err, errlen, "no memory for the exports");
	struct export_table *t = export_table_new();
	if (t == NULL)
		return -ENOMEM;
	int ret = exports_add(t, c, err, errlen);
	if (ret == 0)
		ret = export_table_install(t, err, errlen);
	if (ret != 0)
		export_table_free(t);
	else
		warn_if_nothing(c);
	return ret;
}

/* --- signals --- */

static bool something_else_there(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* To be renamed when it is written. It must not wait (for a reader of a FIFO), nor write where a link leads, nor come in place of a device. */
static FILE *counters_open(const char *path, const char *tmp)
{
	if (something_else_there(path)) {
		errno = EEXIST;
		return NULL;
	}
	int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
	return fd >= 0 ? fdopen(fd, "w") : NULL;
}

/* Always err, which is negative. */
static int counters_fail(int err)
{
	log_write(LOG_LEVEL_ERROR, "%sthe counters' file %s: %s", config_where(&config, &config.counters_file), config.counters_file,
		  err == -EEXIST ? "there is something else by that name, and no regular file" : strerror(-err));
	return err;
}

/* 0, or -errno, which is logged. */
static int counters_write(void)
{
	char tmp[PATH_MAX];
	if (config.counters_file == NULL)
		return 0;
	snprintf(tmp, sizeof(tmp), "%s.tmp", config.counters_file);
	FILE *f = counters_open(config.counters_file, tmp);
	if (f != NULL)
		counter_dump(f);
	/* Readers see a whole file or the one before. */
	if (f != NULL && fclose(f) == 0 && rename(tmp, config.counters_file) == 0)
		return 0;
	return counters_fail(-errno);
}

static void dump(void)
{
	fiber_dump(stderr);
	counter_dump(stderr);
	fflush(stderr);
	counters_write();
}

static int reload_exports(struct server_config *c, char *err, size_t errlen)
{
	if (config_from_argv(c, arguments.count, arguments.values, err, errlen) != CONFIG_SERVE)
		return -EINVAL;
	return exports_load(c, err, errlen);
}

/* Only the exports of `again` are taken. */
static void say_what_waits(struct server_config *again)
{
	const void *member;
	if (again->limits.connections_max == limits_asked.connections_max)
		again->limits.connections_max = config.limits.connections_max;
	if (again->limits.open_files_max == limits_asked.open_files_max)
		again->limits.open_files_max = config.limits.open_files_max;
	const char *key = config_changed(again, &config, &member);
	if (key != NULL)
		log_write(LOG_LEVEL_NOTICE, "%s%s has changed: only exports are read again, the rest waits for the next start", config_where(again, member), key);
}

static void reload(void)
{
	static struct server_config again; /* too large for a stack */
	char err[1024];
	notify_reloading();
	config_init(&again);
	if (reload_exports(&again, err, sizeof(err)) == 0) {
		say_what_waits(&again);
		log_write(LOG_LEVEL_NOTICE, "exports read again");
	} else {
		log_write(LOG_LEVEL_ERROR, "%.900s; the exports stay as they were", err); /* the end must fit into the line too */
	}
	config_fini(&again);
	notify_ready();
}

static void signals_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR1);
}

static void *signal_thread(void *arg)
{
	sigset_t set;
	int sig = 0;
	signals_set(&set);
	while (sig != SIGTERM && sig != SIGINT) {
		if (sigwait(&set, &sig) != 0)
			continue;
		if (sig == SIGHUP)
			reload();
		else if (sig == SIGUSR1)
			dump();
	}
	notify_stopping();
	log_write(LOG_LEVEL_NOTICE, "stopping: no new calls; what has begun is finished, written back and synced");
	server_stop();
	return NULL;
}

/* --- start and end --- */

struct ready_line {
	FILE *f;
	const struct export *last; /* the clients of an export come one after the other */
};

static void ready_path(void *arg, const struct export *e, const char *client)
{
	struct ready_line *line = arg;
	const char *absence = export_absence(e);
	if (line->last != e && absence != NULL)
		fprintf(line->f, " %s (%s)", e->path, absence);
	else if (line->last != e)
		fprintf(line->f, " %s", e->path);
	line->last = e;
}

/* What was to be there when the first reactor runs and is not: the server ends as soon as it has begun. */
static int start_error;

/* One line, in one write. */
static void paths_say(FILE *out, const char *how, const char *addresses)
{
	char *line = NULL;
	size_t len = 0;
	struct ready_line arg = { open_memstream(&line, &len), NULL };
	if (arg.f == NULL)
		return;
	fprintf(arg.f, "nfsdirectd: %s%s, serving", how, addresses);
	export_table_each(ready_path, &arg);
	if (arg.last == NULL)
		fputs(" nothing", arg.f);
	fputc('\n', arg.f);
	fclose(arg.f);
	fputs(line, out);
	fflush(out);
	free(line);
}

static void ready(void)
{
	start_error = cache_start();
	if (start_error == 0) {
		paths_say(stderr, "ready on ", server_addresses());
		notify_ready();
		return;
	}
	/* Nothing would write back what waits for its neighbour. */
	log_write(LOG_LEVEL_ERROR, "the cache's ageing fiber cannot start (%s): the server ends", strerror(-start_error));
	server_stop();
}

static void drained(void) { vfs_file_cache_drain(); }

/* member: of the configuration, which asks for what failed; NULL: none does. */
static int fail(const void *member, const char *what, int err)
{
	log_write(LOG_LEVEL_ERROR, "%s%s: %s", config_where(&config, member), what, strerror(-err));
	return err;
}

static int fail_state_dir(int err)
{
	log_write(LOG_LEVEL_ERROR, "%sthe state directory %s, which keeps the key of file handles: %s", config_where(&config, &config.state_dir), config.state_dir,
		  err == -EWOULDBLOCK ? "another nfsdirectd uses it" : strerror(-err));
	return err;
}

/* Its descriptor, or -errno. */
static int state_dir_open(void)
{
	struct stat st;
	int fd = open(config.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		log_write(LOG_LEVEL_WARNING, "%sthe state directory %s may be written to by others (mode %o): who can replace the key of file handles can take "
			  "every client's mounts away, and who knows it can make handles", config_where(&config, &config.state_dir), config.state_dir,
			  st.st_mode & 07777);
	return fd;
}

/* Made if it is missing, and locked, for as long as this process lives. */
static int state_dir_init(void)
{
	if (mkdir(config.state_dir, 0700) != 0 && errno != EEXIST)
		return fail_state_dir(-errno);
	int fd = state_dir_open();
	if (fd < 0)
		return fail_state_dir(fd);
	return flock(fd, LOCK_EX | LOCK_NB) != 0 ? fail_state_dir(-errno) : 0;
}

/* A start makes it if it is missing. */
static int state_dir_check(void)
{
	int fd = state_dir_open();
	if (fd < 0 && fd != -ENOENT)
		return fail_state_dir(fd);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* What open files may take; the rest is for connections and others. */
static unsigned file_descriptors_max;

/* What the cache may hold, out of the memory of all. */
static struct cache_config cache_config(void)
{
	uint64_t memory = config.limits.memory_bytes_max, bytes = config.limits.cache_bytes_max;
	if (bytes == 0)
		bytes = memory / 8 * 3;
	if (bytes > memory / 2) {
		bytes = memory / 2;
		log_write(LOG_LEVEL_NOTICE, "%sthe cache has %llu MiB, half of memory: the rest is for what is received and sent",
			  config_where(&config, &config.limits.cache_bytes_max), (unsigned long long)(bytes >> 20));
	}
	return (struct cache_config){ .dirty_bytes_max = bytes / 3 * 2, .kept_bytes_max = bytes / 3 };
}

static int layers_init(void)
{
	struct reactor_config rc = {
		.reactors = (unsigned)config.reactors, .fibers = (unsigned)config.fibers, .pool_threads = (unsigned)config.pool_threads,
		.linger_us = (unsigned)config.linger_us,
	};
	struct cache_config cc = cache_config();
	int err;
	if ((err = state_dir_init()) != 0)
		return err;
	if ((err = runtime_init(&rc)) != 0)
		return fail(err == -ENOMEM ? &config.fibers : NULL, "runtime", err);
	if ((err = buf_init(config.limits.memory_bytes_max)) != 0)
		return fail(&config.limits.memory_bytes_max, "memory", err);
	if ((err = vfs_fh_init(config.state_dir)) != 0)
		return fail_state_dir(err);
	if ((err = cache_init(&cc)) != 0)
		return fail(&config.limits.cache_bytes_max, "cache", err);
	if ((err = vfs_file_cache_init((unsigned)config.limits.open_files_max, file_descriptors_max)) != 0)
		return fail(&config.limits.open_files_max, "file cache", err);
	drc_init(config.limits.drc_entries_max, config.limits.drc_bytes_max);
	mount3_init(config.limits.mounts_max);
	return counters_write(); /* at once, if that is not possible */
}

static void layers_fini(void)
{
	mount3_fini();
	drc_fini();
	vfs_file_cache_fini();
	export_table_fini();
	cache_fini();
	runtime_fini();
	buf_fini();
}

/* Fewer than a line of the configuration asks for or, if none does, than a busy server can do with: then the limit of descriptors matters. */
static bool limit_matters(const uint64_t *limit, uint64_t before, uint64_t enough)
{
	bool asked = config_where(&config, limit)[0] != '\0';
	return *limit < (asked ? before : min_u64(before, enough));
}

/* Share what there are: connections must not leave open files without, nor the other way round. */
static void descriptors_share(uint64_t have, uint64_t hard_limit)
{
	enum { CONNECTIONS_ENOUGH = 256, OPEN_FILES_ENOUGH = 1024 };
	struct server_limits *l = &config.limits;
	const struct server_limits before = *l;
	l->connections_max = min_u64(l->connections_max, have / 2);
	file_descriptors_max = (unsigned)min_u64(file_descriptors_max, have - l->connections_max);
	l->open_files_max = min_u64(l->open_files_max, file_descriptors_max);
	bool connections = limit_matters(&l->connections_max, before.connections_max, CONNECTIONS_ENOUGH);
	bool files = limit_matters(&l->open_files_max, before.open_files_max, OPEN_FILES_ENOUGH);
	log_write(connections || files ? LOG_LEVEL_NOTICE : LOG_LEVEL_DEBUG,
		  "%sonly %llu file descriptors (LimitNOFILE=, ulimit -Hn): at most %llu connections and %llu open files, %u while all of these are read or written",
		  connections ? config_where(&config, &l->connections_max) : config_where(&config, &l->open_files_max), (unsigned long long)hard_limit,
		  (unsigned long long)l->connections_max, (unsigned long long)l->open_files_max, file_descriptors_max / VFS_FILE_DESCRIPTORS_MAX);
}

/* Take what descriptors the hard limit allows. Some are for rings, exports and the rest. */
static void descriptors_init(void)
{
	enum { OTHERS = 48 };
	struct rlimit nofile;
	if (getrlimit(RLIMIT_NOFILE, &nofile) != 0)
		nofile.rlim_max = 1024;
	nofile.rlim_cur = nofile.rlim_max;
	setrlimit(RLIMIT_NOFILE, &nofile);
	uint64_t have = max_u64(nofile.rlim_cur, OTHERS + 32) - OTHERS;
	file_descriptors_max = VFS_FILE_DESCRIPTORS_MAX * (unsigned)config.limits.open_files_max;
	if (config.limits.connections_max + file_descriptors_max > have)
		descriptors_share(have, nofile.rlim_cur);
}

static void process_init(void)
{
	sigset_t set;
	umask(0); /* modes are the client's */
	signals_set(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	log_set_level(config.log_level);
	limits_asked = config.limits;
	descriptors_init();
}

static bool may_serve(void)
{
	if (cred_may_open_handles())
		return true;
	log_write(LOG_LEVEL_ERROR, "run this as root, or with the capabilities of a file server: CAP_DAC_READ_SEARCH to open files by their handles, CAP_SETUID and "
		  "CAP_SETGID to act as a client's user, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_CHOWN and CAP_MKNOD for root's own rights");
	return false;
}

/* The exit status. */
static int check(void)
{
	char err[1024];
	log_set_level(config.log_level);
	if (!may_serve() || state_dir_check() != 0)
		return 1;
	if (config.counters_file != NULL && something_else_there(config.counters_file)) {
		counters_fail(-EEXIST);
		return 1;
	}
	if (exports_load(&config, err, sizeof(err)) != 0) {
		log_write(LOG_LEVEL_ERROR, "%s", err);
		return 1;
	}
	paths_say(stdout, "no error: ready for a start", "");
	export_table_fini();
	return 0;
}

static int serve(void)
{
	pthread_t signals;
	char err[1024];
	if (exports_load(&config, err, sizeof(err)) != 0 || server_init(&config, programs, err, sizeof(err)) != 0) {
		log_write(LOG_LEVEL_ERROR, "%s", err);
		return 1;
	}
	int ret = pthread_create(&signals, NULL, signal_thread, NULL);
	ASSERT(ret == 0);
	ret = server_run(ready, drained);
	if (ret != 0)
		log_write(LOG_LEVEL_ERROR, "the reactors cannot run: %s", strerror(-ret));
	pthread_kill(signals, SIGTERM); /* if it was not that which ended us */
	pthread_join(signals, NULL);
	server_fini();
	counters_write();
	return ret != 0 || start_error != 0;
}

int main(int argc, char **argv)
{
	char err[1024];
	arguments.count = argc;
	arguments.values = argv;
	config_init(&config);
	enum config_action action = config_from_argv(&config, argc, argv, err, sizeof(err));
	if (action == CONFIG_EXIT_USAGE)
		log_write(LOG_LEVEL_ERROR, "%s", err);
	if (action != CONFIG_SERVE) {
		int status = action == CONFIG_CHECK ? check() : action != CONFIG_EXIT_OK;
		config_fini(&config);
		return status;
	}
	process_init();
	int ret = !may_serve() || layers_init() != 0 ? 1 : serve();
	if (ret == 0) {
		layers_fini();
		log_write(LOG_LEVEL_NOTICE, "stopped");
	}
	config_fini(&config);
	return ret;
}
