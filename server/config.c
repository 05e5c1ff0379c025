/*
 * server/config.c - reads the command line and configuration files into struct server_config.
 *
 * One table names every setting that has a number or a text: the file's section and key, the bounds, the place. inih splits the lines; it has no way to hand an
 * error's text back, so the handler keeps the first one in struct reader and returns 0, and inih tells the line. Readers of included files form a chain to
 * the file of --config, so that a circle is seen before it is run through; what all of them read together is bounded. Runs in main() before any reactor, and
 * in the signal thread, one at a time.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <config.h>
#include "runtime/base.h"
#include "runtime/text_file.h"
#include "server/config.h"

enum setting_kind { SETTING_NUMBER, SETTING_BYTES, SETTING_PATH };

struct setting {
	const char *section, *key;
	enum setting_kind kind;
	size_t offset;
	uint64_t min, max;
};

#define AT(field) offsetof(struct server_config, field)
#define LIMIT(field) offsetof(struct server_config, limits.field)

static const uint64_t kib = 1024;

static const struct setting settings[] = {
	{ "server", "port", SETTING_NUMBER, AT(port), 0, 65535 },
	{ "server", "state_dir", SETTING_PATH, AT(state_dir), 0, 0 },
	{ "server", "counters_file", SETTING_PATH, AT(counters_file), 0, 0 },
	{ "server", "reactors", SETTING_NUMBER, AT(reactors), 0, 64 },
	{ "server", "fibers", SETTING_NUMBER, AT(fibers), 64, 16384 },
	{ "server", "pool_threads", SETTING_NUMBER, AT(pool_threads), 1, 256 },
	{ "server", "linger_us", SETTING_NUMBER, AT(linger_us), 0, 10000 },
	{ "limits", "connections", SETTING_NUMBER, LIMIT(connections_max), 1, 1000000 },
	{ "limits", "connection_calls", SETTING_NUMBER, LIMIT(connection_calls_max), 1, 65536 },
	{ "limits", "connection_bytes", SETTING_BYTES, LIMIT(connection_bytes_max), 1048576, UINT64_C(1) << 40 },
	{ "limits", "reactor_calls", SETTING_NUMBER, LIMIT(reactor_calls_max), 16, 65536 },
	{ "limits", "memory", SETTING_BYTES, LIMIT(memory_bytes_max), 16 * 1048576, UINT64_C(1) << 44 },
	{ "limits", "cache", SETTING_BYTES, LIMIT(cache_bytes_max), 3 * 1048576, UINT64_C(1) << 43 },
	{ "limits", "io_bytes", SETTING_BYTES, LIMIT(io_bytes_max), 8192, 1048576 },
	{ "limits", "open_files", SETTING_NUMBER, LIMIT(open_files_max), 16, 1000000 },
	{ "limits", "idle_timeout_s", SETTING_NUMBER, LIMIT(idle_timeout_s), 1, 86400 },
	{ "limits", "record_timeout_s", SETTING_NUMBER, LIMIT(record_timeout_s), 1, 86400 },
	{ "limits", "drc_entries", SETTING_NUMBER, LIMIT(drc_entries_max), 16, 1000000 },
	{ "limits", "drc_bytes", SETTING_BYTES, LIMIT(drc_bytes_max), 65536, UINT64_C(1) << 32 },
	{ "limits", "mounts", SETTING_NUMBER, LIMIT(mounts_max), 1, 1000000 },
};

static const char *const log_level_names[] = { "error", "warning", "notice", "info", "debug" };

static char *text_dup(const char *s)
{
	char *copy = strdup(s);
	ASSERT(copy != NULL);
	return copy;
}

static void text_set(char **place, const char *value)
{
	char *copy = text_dup(value);
	free(*place);
	*place = copy;
}

/* --- where a value stood --- */

static struct config_place *place_find(const struct server_config *c, const void *member)
{
	for (unsigned i = 0; i < c->place_count; i++)
		if (c->places[i].member == member)
			return &c->places[i];
	return NULL;
}

const char *config_where(const struct server_config *c, const void *member)
{
	const struct config_place *p = place_find(c, member);
	return p != NULL ? p->where : "";
}

/* The member has its value from the line that is read, or, while none is, from the command line. */
static void place_note(struct server_config *c, const void *member)
{
	struct config_place *p = place_find(c, member);
	if (p == NULL && c->reading == NULL)
		return;
	if (p == NULL) {
		c->places = reallocarray(c->places, c->place_count + 1, sizeof(*p));
		ASSERT(c->places != NULL);
		p = &c->places[c->place_count++];
		*p = (struct config_place){ .member = member };
	}
	text_set(&p->where, c->reading != NULL ? c->reading : "");
}

static void places_clear(struct server_config *c)
{
	for (unsigned i = 0; i < c->place_count; i++)
		free(c->places[i].where);
	free(c->places);
}

/* --- defaults --- */

void config_init(struct server_config *c)
{
	*c = (struct server_config){
		.port = 2049,
		.fibers = 1024,
		.pool_threads = 8,
		.linger_us = 100,
		.log_level = LOG_LEVEL_INFO,
		.limits = {
			.connections_max = 4096,
			.connection_calls_max = 256,
			.connection_bytes_max = 16 * kib * kib,
			.reactor_calls_max = 2048,
			.memory_bytes_max = 256 * kib * kib,
			.io_bytes_max = kib * kib,
			.open_files_max = 16384,
			.idle_timeout_s = 360,
			.record_timeout_s = 60,
			.drc_entries_max = 8192,
			.drc_bytes_max = 4 * kib * kib,
			.mounts_max = 1024,
		},
	};
	text_set(&c->state_dir, "/var/lib/nfsdirect");
}

static void exports_clear(struct server_config *c)
{
	for (unsigned i = 0; i < c->export_count; i++)
		free(c->exports[i].text);
	c->export_count = 0;
}

static void binds_clear(struct server_config *c)
{
	for (unsigned i = 0; i < c->binds; i++)
		free(c->bind[i].text);
	c->binds = 0;
}

void config_fini(struct server_config *c)
{
	exports_clear(c);
	binds_clear(c);
	free(c->state_dir);
	free(c->counters_file);
	places_clear(c);
}

/* --- values --- */

/* A number, with K, M or G, or k, m or g, behind it if `bytes`. */
static bool number_parse(const char *text, bool bytes, uint64_t *value)
{
	char *end;
	unsigned shift = 0;
	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno != 0)
		return false;
	if (bytes && *end != '\0') {
		const char *suffixes = "KMGkmg", *suffix = strchr(suffixes, *end);
		if (suffix == NULL)
			return false;
		shift = 10 * ((unsigned)(suffix - suffixes) % 3 + 1);
		end++;
	}
	if (*end != '\0' || *value > UINT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}

static const char *bound_text(const struct setting *s, uint64_t bound, char text[24])
{
	unsigned thousands = 0;
	while (s->kind == SETTING_BYTES && thousands < 3 && bound != 0 && bound % kib == 0) {
		bound /= kib;
		thousands++;
	}
	snprintf(text, 24, "%llu%.*s", (unsigned long long)bound, thousands != 0, &" KMG"[thousands]);
	return text;
}

static int setting_apply(struct server_config *c, const struct setting *s, const char *value, char *err, size_t errlen)
{
	char *place = (char *)c + s->offset;
	uint64_t number;
	if (s->kind == SETTING_PATH) {
		if (value[0] == '\0') {
			snprintf(err, errlen, "%s has no value", s->key);
			return -EINVAL;
		}
		text_set((char **)place, value);
		place_note(c, place);
		return 0;
	}
	if (!number_parse(value, s->kind == SETTING_BYTES, &number)) {
		snprintf(err, errlen, "%s = '%s' is not a number%s%s", s->key, value, s->kind == SETTING_BYTES ? " of bytes (K, M and G may follow)" : "",
			 strstr(value, " #") != NULL ? "; a comment behind a value begins with ' ;'" : "");
		return -EINVAL;
	}
	if (number < s->min || number > s->max) {
		char min[24], max[24];
		snprintf(err, errlen, "%s = %s is not within %s...%s", s->key, value, bound_text(s, s->min, min), bound_text(s, s->max, max));
		return -EINVAL;
	}
	*(uint64_t *)place = number;
	place_note(c, place);
	return 0;
}

static int export_add(struct server_config *c, int kind, const char *text, char *err, size_t errlen)
{
	if (c->export_count == CONFIG_EXPORTS_MAX) {
		snprintf(err, errlen, "more than %d exports", CONFIG_EXPORTS_MAX);
		return -EINVAL;
	}
	if (text[0] == '\0') {
		snprintf(err, errlen, "an export without a path");
		return -EINVAL;
	}
	struct config_export *e = &c->exports[c->export_count++];
	e->kind = kind;
	e->text = text_dup(text);
	place_note(c, e);
	return 0;
}

static bool address_parse(const char *text, struct config_address *a)
{
	*a = (struct config_address){ .family = AF_INET };
	if (inet_pton(a->family, text, &a->bytes) == 1)
		return true;
	a->family = AF_INET6;
	return inet_pton(a->family, text, &a->bytes) == 1;
}

/* No two sockets can listen on both: it is the same, or one of them is any address of the family. */
static bool addresses_overlap(const struct config_address *a, const struct config_address *b)
{
	return a->family == b->family &&
	       (IN6_ARE_ADDR_EQUAL(&a->bytes, &b->bytes) || IN6_IS_ADDR_UNSPECIFIED(&a->bytes) || IN6_IS_ADDR_UNSPECIFIED(&b->bytes));
}

int config_bind_add(struct server_config *c, const char *address, char *err, size_t errlen)
{
	if (c->binds == CONFIG_BINDS_MAX) {
		snprintf(err, errlen, "more than %d addresses to bind", CONFIG_BINDS_MAX);
		return -EINVAL;
	}
	struct config_address a;
	if (!address_parse(address, &a)) {
		snprintf(err, errlen, "'%s' is no IPv4 or IPv6 address to bind", address);
		return -EINVAL;
	}
	for (unsigned i = 0; i < c->binds; i++)
		if (addresses_overlap(&a, &c->bind[i])) {
			snprintf(err, errlen, "bind = %s overlaps with %sbind = %s", address, config_where(c, &c->bind[i]), c->bind[i].text);
			return -EINVAL;
		}
	a.text = text_dup(address);
	c->bind[c->binds] = a;
	place_note(c, &c->bind[c->binds++]);
	return 0;
}

static int log_level_set(struct server_config *c, const char *value, char *err, size_t errlen)
{
	for (unsigned i = 0; i < ARRAY_SIZE(log_level_names); i++)
		if (strcmp(value, log_level_names[i]) == 0) {
			c->log_level = (enum log_level)i;
			place_note(c, &c->log_level);
			return 0;
		}
	snprintf(err, errlen, "log_level = '%s' is none of error, warning, notice, info, debug", value);
	return -EINVAL;
}

static bool setting_differs(const struct setting *s, const struct server_config *a, const struct server_config *b)
{
	const void *x = (const char *)a + s->offset, *y = (const char *)b + s->offset;
	if (s->kind != SETTING_PATH)
		return *(const uint64_t *)x != *(const uint64_t *)y;
	const char *text_x = *(char *const *)x, *text_y = *(char *const *)y;
	return text_x == NULL || text_y == NULL ? text_x != text_y : strcmp(text_x, text_y) != 0;
}

static bool binds_differ(const struct server_config *a, const struct server_config *b)
{
	if (a->binds != b->binds)
		return true;
	for (unsigned i = 0; i < a->binds; i++)
		if (strcmp(a->bind[i].text, b->bind[i].text) != 0)
			return true;
	return false;
}

const char *config_changed(const struct server_config *now, const struct server_config *then, const void **member)
{
	for (unsigned i = 0; i < ARRAY_SIZE(settings); i++)
		if (setting_differs(&settings[i], now, then)) {
			*member = (const char *)now + settings[i].offset;
			return settings[i].key;
		}
	*member = &now->log_level;
	if (now->log_level != then->log_level)
		return "log_level";
	*member = &now->bind[0];
	return binds_differ(now, then) ? "bind" : NULL;
}

/* --- the file --- */

struct reader {
	struct server_config *c;
	const struct reader *includer; /* NULL: this is the file of --config */
	const char *path;
	const char *section; /* that the file begins in: of the line that includes it; "" without */
	size_t *bytes_left;  /* for it and all that it includes; shared by these */
	struct text_file file;
	int line;
	int error_line;
	char what[512];    /* the first error, without file and line */
	bool nested_error; /* `what` has its file and line already: it comes from an included file */
};

static int reader_run(struct reader *r, char *err, size_t errlen);

/* 0, or -errno with *why. */
static int reader_open(struct reader *r, const char **why)
{
	int err = text_file_open(&r->file, r->path, *r->bytes_left, why);
	if (err == 0)
		*r->bytes_left -= r->file.len;
	else if (err == -EFBIG && r->includer != NULL)
		*why = "the configuration has " TEXT_FILE_TOO_LARGE " with it";
	return err;
}

/* What forbids to read a file that is open, or NULL. */
static const char *include_check(const struct reader *inner)
{
	unsigned depth = 0;
	for (const struct reader *r = inner->includer; r != NULL; r = r->includer) {
		depth++;
		if (r->file.dev == inner->file.dev && r->file.ino == inner->file.ino)
			return "it would include itself";
	}
	return depth > CONFIG_INCLUDE_DEPTH_MAX ? "includes are nested too deep" : NULL;
}

/* A path that is relative is so to the file that names it; none at all stays that. NULL, with an error: too long. */
static const char *path_resolve(struct reader *r, const char *key, const char *value, char path[PATH_MAX])
{
	const char *slash = strrchr(r->path, '/');
	int dir_len = value[0] == '/' || value[0] == '\0' || slash == NULL ? 0 : (int)(slash - r->path + 1);
	if (snprintf(path, PATH_MAX, "%.*s%s", dir_len, r->path, value) < PATH_MAX)
		return path;
	snprintf(r->what, sizeof(r->what), "%s = %.100s...: the path is too long", key, value);
	return NULL;
}

static int include(struct reader *r, const char *section, const char *value)
{
	char path[PATH_MAX];
	struct reader inner = { .c = r->c, .includer = r, .path = path, .section = section, .bytes_left = r->bytes_left };
	const char *why = NULL;
	if (value[0] == '\0') {
		snprintf(r->what, sizeof(r->what), "include has no value");
		return -EINVAL;
	}
	if (path_resolve(r, "include", value, path) == NULL)
		return -EINVAL;
	int err = reader_open(&inner, &why);
	if (err == 0)
		why = include_check(&inner);
	if (why != NULL) {
		snprintf(r->what, sizeof(r->what), "cannot include %.400s: %s", path, why);
		if (err == 0)
			text_file_close(&inner.file);
		return -EINVAL;
	}
	err = reader_run(&inner, r->what, sizeof(r->what));
	r->nested_error = err != 0;
	return err;
}

/* A line in a section. */
static int line_apply(struct reader *r, const char *section, const char *key, const char *value)
{
	char path[PATH_MAX];
	if (strcmp(section, "server") == 0 && strcmp(key, "bind") == 0)
		return config_bind_add(r->c, value, r->what, sizeof(r->what));
	if (strcmp(section, "server") == 0 && strcmp(key, "log_level") == 0)
		return log_level_set(r->c, value, r->what, sizeof(r->what));
	if (strcmp(section, "exports") == 0 && strcmp(key, "file") == 0)
		return path_resolve(r, key, value, path) == NULL ? -EINVAL : export_add(r->c, CONFIG_EXPORT_FILE, path, r->what, sizeof(r->what));
	if (strcmp(section, "exports") == 0 && strcmp(key, "export") == 0)
		return export_add(r->c, CONFIG_EXPORT_SPEC, value, r->what, sizeof(r->what));
	for (unsigned i = 0; i < ARRAY_SIZE(settings); i++) {
		const struct setting *s = &settings[i];
		if (strcmp(section, s->section) != 0 || strcmp(key, s->key) != 0)
			continue;
		if (s->kind == SETTING_PATH && (value = path_resolve(r, key, value, path)) == NULL)
			return -EINVAL;
		return setting_apply(r->c, s, value, r->what, sizeof(r->what));
	}
	snprintf(r->what, sizeof(r->what), "no key '%s' in section [%s]", key, section);
	return -EINVAL;
}

static int line_read(struct reader *r, const char *section, const char *key, const char *value)
{
	char where[PATH_MAX + 16];
	if (strcmp(key, "include") == 0)
		return include(r, section, value);
	if (section[0] == '\0') {
		snprintf(r->what, sizeof(r->what), "'%s' stands before any section ([server], [limits] or [exports])", key);
		return -EINVAL;
	}
	snprintf(where, sizeof(where), "%s:%d: ", r->path, r->line);
	r->c->reading = where;
	int err = line_apply(r, section, key, value);
	r->c->reading = NULL;
	return err;
}

/* inih's: 1 is success. After the first error the rest of the file is not looked at. */
static int on_line(void *user, const char *section, const char *key, const char *value)
{
	struct reader *r = user;
	if (r->what[0] != '\0')
		return 1;
	if (line_read(r, section[0] != '\0' ? section : r->section, key, value) == 0)
		return 1;
	r->error_line = r->line;
	return 0;
}

static bool section_known(const char *name, size_t len)
{
	static const char *const sections[] = { "server", "limits", "exports" };
	for (unsigned i = 0; i < ARRAY_SIZE(sections); i++)
		if (strlen(sections[i]) == len && strncmp(name, sections[i], len) == 0)
			return true;
	return false;
}

/* `[name]` and no more. What does not end is left to inih. */
static void section_check(struct reader *r, const char *line)
{
	size_t len = strcspn(line + 1, "]");
	const char *behind = line + 1 + len;
	if (*behind == '\0')
		return;
	behind += 1 + strspn(behind + 1, " \t\r\n");
	if (!section_known(line + 1, len))
		snprintf(r->what, sizeof(r->what), "no section [%.*s] (there are [server], [limits] and [exports])", (int)len, line + 1);
	else if (*behind != '\0' && *behind != ';' && *behind != '#')
		snprintf(r->what, sizeof(r->what), "behind [%.*s] stands something else", (int)len, line + 1);
	r->error_line = r->line;
}

/* What inih would not see in a line that is whole, or take for something else. */
static char *line_check(struct reader *r, char *line)
{
	static const char mark[] = "\xEF\xBB\xBF"; /* of UTF-8, as some editors put it */
	size_t skip = r->line == 1 && strncmp(line, mark, strlen(mark)) == 0 ? strlen(mark) : 0;
	skip += strspn(line + skip, " \t");
	memmove(line, line + skip, strlen(line + skip) + 1);
	if (line[0] == '[' && r->what[0] == '\0')
		section_check(r, line);
	return line;
}

/*
 * inih's reader, as fgets(): inih would take a line longer than its buffer for two, and an indented line for more of the value above, though it is a key of its
 * own. And it tells of a section with its first key only.
 */
static char *next_line(char *line, int size, void *stream)
{
	struct reader *r = stream;
	FILE *f = r->file.f;
	int c;
	if (fgets(line, size, f) == NULL)
		return NULL;
	r->line++;
	if (strchr(line, '\n') != NULL || (c = getc(f)) == EOF)
		return line_check(r, line);
	while (c != '\n' && c != EOF)
		c = getc(f);
	if (r->what[0] == '\0') {
		snprintf(r->what, sizeof(r->what), "the line is longer than %d bytes", size - 2);
		r->error_line = r->line;
	}
	return line;
}

/* Take what is open, to its end, and close it. 0, or -EINVAL with a message that begins with file and line. */
static int reader_run(struct reader *r, char *err, size_t errlen)
{
	int line = ini_parse_stream(next_line, r, on_line, r);
	text_file_close(&r->file);
	if (line == 0 && r->what[0] == '\0')
		return 0;
	if (r->nested_error)
		snprintf(err, errlen, "%s", r->what);
	else if (r->what[0] == '\0' || (line != 0 && line < r->error_line))
		snprintf(err, errlen, "%s:%d: neither [section], key = value, nor a comment", r->path, line);
	else
		snprintf(err, errlen, "%s:%d: %s", r->path, r->error_line, r->what);
	return -EINVAL;
}

int config_read_file(struct server_config *c, const char *path, char *err, size_t errlen)
{
	size_t bytes_left = TEXT_FILE_BYTES_MAX;
	struct reader r = { .c = c, .path = path, .section = "", .bytes_left = &bytes_left };
	const char *why;
	int ret = reader_open(&r, &why);
	if (ret == 0)
		return reader_run(&r, err, errlen);
	snprintf(err, errlen, "the configuration %s: %s", path, why);
	return ret;
}

/* --- the command line --- */

enum { OPT_FOREGROUND = 256, OPT_BIND, OPT_PORT, OPT_STATE_DIR, OPT_EXPORT, OPT_EXPORTS, OPT_CONFIG, OPT_REACTORS, OPT_COUNTERS, OPT_LOG_LEVEL, OPT_CHECK, OPT_VERSION, OPT_HELP };

static const struct option options[] = {
	{ "foreground", no_argument, NULL, OPT_FOREGROUND },
	{ "bind", required_argument, NULL, OPT_BIND },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "state-dir", required_argument, NULL, OPT_STATE_DIR },
	{ "export", required_argument, NULL, OPT_EXPORT },
	{ "exports", required_argument, NULL, OPT_EXPORTS },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "reactors", required_argument, NULL, OPT_REACTORS },
	{ "counters-file", required_argument, NULL, OPT_COUNTERS },
	{ "log-level", required_argument, NULL, OPT_LOG_LEVEL },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char help_text[] =
	"Usage: nfsdirectd [OPTION]...\n"
	"Serve directories over NFSv3; NFS and MOUNT answer on one TCP port.\n\n"
	"  --export 'PATH(options)'  export PATH to every client (exports(5) options; default rw,insecure); repeatable\n"
	"  --exports FILE            exports(5) file, or a directory of *.exports files; repeatable\n"
	"  --config FILE             configuration file (default: none); the command line wins over it\n"
	"  --bind ADDR               address to listen on; repeatable (default: any)\n"
	"  --port N                  TCP port (default 2049; 0: any free one)\n"
	"  --state-dir DIR           where the key of file handles is kept, of this server only\n"
	"                            (default /var/lib/nfsdirect)\n"
	"  --reactors N              threads that serve connections (default 0: one per CPU)\n"
	"  --counters-file PATH      write the counters there at the start, on SIGUSR1 and at the end\n"
	"  --log-level LEVEL         error, warning, notice, info (default) or debug\n"
	"  --check                   read the configuration and the exports as a start would, say what is wrong, and exit\n"
	"  --foreground              stay in the foreground (always so)\n"
	"  --version, --help         print and exit\n\n"
	"It needs root, or CAP_DAC_READ_SEARCH, CAP_SETUID, CAP_SETGID and root's other rights on files.\n"
	"Without --export and --exports, and without any in the file, /etc/exports and /etc/exports.d are served.\n"
	"SIGTERM: finish, write back, end. SIGHUP: read the exports again. SIGUSR1: log fibers and counters.\n";

static const struct setting *setting_find(const char *key)
{
	for (unsigned i = 0; i < ARRAY_SIZE(settings); i++)
		if (strcmp(settings[i].key, key) == 0)
			return &settings[i];
	return NULL;
}

/* The first mention on the command line of what may be repeated replaces what the file said. */
struct overrides {
	bool binds, exports;
};

static int export_override(struct server_config *c, struct overrides *o, int kind, char *err, size_t errlen)
{
	if (!o->exports)
		exports_clear(c);
	o->exports = true;
	return export_add(c, kind, optarg, err, errlen);
}

static int bind_override(struct server_config *c, struct overrides *o, char *err, size_t errlen)
{
	if (!o->binds)
		binds_clear(c);
	o->binds = true;
	return config_bind_add(c, optarg, err, errlen);
}

/* `word` is where getopt_long() stumbled. */
static int option_apply(struct server_config *c, int opt, const char *word, struct overrides *o, char *err, size_t errlen)
{
	switch (opt) {
	case OPT_BIND: return bind_override(c, o, err, errlen);
	case OPT_PORT: return setting_apply(c, setting_find("port"), optarg, err, errlen);
	case OPT_STATE_DIR: return setting_apply(c, setting_find("state_dir"), optarg, err, errlen);
	case OPT_EXPORT: return export_override(c, o, CONFIG_EXPORT_SPEC, err, errlen);
	case OPT_EXPORTS: return export_override(c, o, CONFIG_EXPORT_FILE, err, errlen);
	case OPT_REACTORS: return setting_apply(c, setting_find("reactors"), optarg, err, errlen);
	case OPT_COUNTERS: return setting_apply(c, setting_find("counters_file"), optarg, err, errlen);
	case OPT_LOG_LEVEL: return log_level_set(c, optarg, err, errlen);
	case OPT_CHECK: c->check_only = true; return 0;
	case OPT_FOREGROUND:
	case OPT_CONFIG: return 0;
	}
	const char *what = opt == ':' ? "lacks its value" : optopt >= OPT_FOREGROUND ? "takes no value" : "is unknown";
	snprintf(err, errlen, "option '%s' %s; --help lists the options", word, what);
	return -EINVAL;
}

/* First walk: what ends at once, and the file, so that the second walk's options win over it. */
static enum config_action file_options(struct server_config *c, int argc, char **argv, char *err, size_t errlen)
{
	int opt;
	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (opt == OPT_HELP || opt == OPT_VERSION) {
			fputs(opt == OPT_HELP ? help_text : PACKAGE_NAME "d " PACKAGE_VERSION "\n", stdout);
			return CONFIG_EXIT_OK;
		}
		if (opt == OPT_CONFIG && config_read_file(c, optarg, err, errlen) != 0)
			return CONFIG_EXIT_USAGE;
	}
	return CONFIG_SERVE;
}

enum config_action config_from_argv(struct server_config *c, int argc, char **argv, char *err, size_t errlen)
{
	struct overrides overrides = { false, false };
	enum config_action action = file_options(c, argc, argv, err, errlen);
	int opt;
	if (action != CONFIG_SERVE)
		return action;
	optind = 0;
	while ((opt = getopt_long(argc, argv, ":", options, NULL)) != -1)
		if (option_apply(c, opt, argv[optind - 1], &overrides, err, errlen) != 0)
			return CONFIG_EXIT_USAGE;
	if (optind < argc) {
		snprintf(err, errlen, "'%s' is no option; --help lists them", argv[optind]);
		return CONFIG_EXIT_USAGE;
	}
	return c->check_only ? CONFIG_CHECK : CONFIG_SERVE;
}
