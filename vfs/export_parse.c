/*
 * vfs/export_parse.c - exports(5) lines into a table.
 *
 * A line is a path and clients; every option that exports(5) of nfs-utils knows is in one table below, with what it means here: it is honoured, or it has
 * nothing to change here (accepted), or its effect is missing (accepted with a notice), or to ignore it would give clients more than the administrator
 * meant, or something else (refused). A line is added wholly or not at all.
 *
 * ro, rw, the squash options and (in)secure may follow a sec= and then mean that flavour only: those of flavours other than sys are skipped.
 */
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/log.h"
#include "runtime/text_file.h"
#include "vfs/export_table.h"
#include "vfs/siphash.h"

/* Options as they accumulate: the path's defaults (-options), then the client's. */
struct option_state {
	struct export_options options;
	bool squash_root, squash_all;
	bool sec_given;        /* some sec= was there */
	bool sec_other;        /* options now are for flavours other than sys */
	const char *mountpoint;/* in the line's memory; "": the path itself */
};

struct parse {
	const char *where; /* "FILE:LINE: ", "" on the command line */
	const char *what;  /* "export 'SPEC': " where that is not the line itself, or "" */
	struct export_remark_list *remarks;
	char *errbuf;
	size_t errlen;
};

struct option_word {
	const char *name;
	int (*apply)(struct parse *p, struct option_state *s, const struct option_word *word, const char *value);
	int arg;
	const char *text;  /* notice and refuse: why */
};

/* Always -EINVAL. */
static int parse_error(struct parse *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int parse_error(struct parse *p, const char *fmt, ...)
{
	int n = snprintf(p->errbuf, p->errlen, "%s%s", p->where, p->what);
	va_list ap;

	if (n >= 0 && (size_t)n < p->errlen) {
		va_start(ap, fmt);
		vsnprintf(p->errbuf + n, p->errlen - n, fmt, ap);
		va_end(ap);
	}
	return -EINVAL;
}

static int need_value(struct parse *p, const struct option_word *word, const char *value)
{
	return value && *value ? 0 : parse_error(p, "option '%s' needs a value: %s=...", word->name, word->name);
}

static int no_value(struct parse *p, const struct option_word *word, const char *value)
{
	return value ? parse_error(p, "option '%s' takes no value", word->name) : 0;
}

static int apply_read_only(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	if (!s->sec_other)
		s->options.read_only = word->arg;
	return no_value(p, word, value);
}

static int apply_async(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	s->options.async = word->arg;
	return no_value(p, word, value);
}

static int apply_insecure(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	if (!s->sec_other)
		s->options.insecure = word->arg;
	return no_value(p, word, value);
}

static int apply_squash_root(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	if (!s->sec_other)
		s->squash_root = word->arg;
	return no_value(p, word, value);
}

static int apply_squash_all(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	if (!s->sec_other)
		s->squash_all = word->arg;
	return no_value(p, word, value);
}

/* A user or group number; negative ones as exports(5) writes nobody (-2). -1 is no identity: the kernel takes it for "leave as it is". */
static int apply_anon_id(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	long long id;
	char *end;

	if (need_value(p, word, value))
		return -EINVAL;
	id = strtoll(value, &end, 10);
	if (*end || id < INT_MIN || id > UINT32_MAX || (uint32_t)id == UINT32_MAX)
		return parse_error(p, "'%s=%s': not a user or group number", word->name, value);
	*(word->arg ? &s->options.anon_gid : &s->options.anon_uid) = id;
	return 0;
}

/* Thirty-two hexadecimal digits with any punctuation of UUIDs between them, folded to 64 bits. */
static bool uuid_fold(const char *text, uint64_t *fsid)
{
	static const uint8_t key[SIPHASH_KEY_BYTES];
	uint8_t uuid[16] = { 0 };
	unsigned digits = 0;

	for (; *text && digits <= 32; text++) {
		const char *hex = "0123456789abcdef", *at = strchr(hex, *text | 0x20);

		if (strchr("-:.", *text))
			continue;
		if (!at || digits == 32)
			return false;
		uuid[digits / 2] |= (at - hex) << (digits % 2 ? 0 : 4);
		digits++;
	}
	*fsid = siphash24(key, uuid, sizeof(uuid));
	return digits == 32;
}

static int apply_fsid(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	char *end;

	if (need_value(p, word, value))
		return -EINVAL;
	s->options.has_fsid = true;
	if (!strcmp(value, "root")) {
		s->options.fsid = 0;
		return 0;
	}
	errno = 0;
	s->options.fsid = strtoull(value, &end, 0);
	if ((!*end && !errno && *value != '-') || uuid_fold(value, &s->options.fsid))
		return 0;
	return parse_error(p, "'fsid=%s': neither a number, 'root' nor a UUID", value);
}

static bool flavour_known(const char *flavour)
{
	static const char *const flavours[] = { "sys", "none", "null", "krb5", "krb5i", "krb5p", "unix" };

	for (unsigned i = 0; i < ARRAY_SIZE(flavours); i++)
		if (!strcmp(flavour, flavours[i]))
			return true;
	return false;
}

/* sec=a:b:c. The flavours besides sys are not offered, which a notice says; a line without sys is refused at its end. */
static int apply_sec(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	char list[64], *rest = list, *flavour;

	if (need_value(p, word, value))
		return -EINVAL;
	s->sec_given = true;
	s->sec_other = true;
	if (snprintf(list, sizeof(list), "%s", value) >= (int)sizeof(list))
		return parse_error(p, "'sec=%s': too many flavours", value);
	while ((flavour = strsep(&rest, ":"))) {
		if (!flavour_known(flavour))
			return parse_error(p, "'sec=%s': unknown flavour '%s'", value, flavour);
		if (!strcmp(flavour, "sys") || !strcmp(flavour, "unix"))
			s->sec_other = false;
		else
			export_remark_add(p->remarks, LOG_LEVEL_NOTICE, "%s%ssec=%s is not offered yet, only sec=sys", p->where, p->what, flavour);
	}
	if (!s->sec_other)
		s->options.sec_sys = true;
	return 0;
}

static int apply_mountpoint(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	s->mountpoint = value ? value : "";
	return 0;
}

static int apply_mode(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	enum export_mode *mode = word->arg ? &s->options.write_mode : &s->options.read_mode;

	if (need_value(p, word, value))
		return -EINVAL;
	if (!strcmp(value, "direct"))
		*mode = EXPORT_MODE_DIRECT;
	else if (!strcmp(value, "dontcache"))
		*mode = EXPORT_MODE_DONTCACHE;
	else if (!strcmp(value, "buffered"))
		*mode = EXPORT_MODE_BUFFERED;
	else
		return parse_error(p, "'%s=%s': direct, dontcache or buffered", word->name, value);
	return 0;
}

static int apply_misaligned(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	if (need_value(p, word, value))
		return -EINVAL;
	if (strcmp(value, "yes") && strcmp(value, "no"))
		return parse_error(p, "'%s=%s': yes or no", word->name, value);
	s->options.keep_edges = !strcmp(value, "no");
	return 0;
}

static int apply_nothing(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	return 0;
}

static int apply_notice(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	export_remark_add(p->remarks, LOG_LEVEL_NOTICE, "%s%soption '%s' has no effect: %s", p->where, p->what, word->name, word->text);
	return 0;
}

static int apply_refuse(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	return parse_error(p, "option '%s' is not supported: %s", word->name, word->text);
}

static int apply_xprtsec(struct parse *p, struct option_state *s, const struct option_word *word, const char *value)
{
	if (need_value(p, word, value))
		return -EINVAL;
	return strcmp(value, "none") ? parse_error(p, "'xprtsec=%s': only none; TLS is not offered yet", value) : 0;
}

static const struct option_word option_words[] = {
	{ .name = "acl", .apply = apply_notice, .text = "ACLs are obeyed, but clients cannot see or set them (there is no NFSACL)" },
	{ .name = "all_squash", .apply = apply_squash_all, .arg = true },
	{ .name = "anongid", .apply = apply_anon_id, .arg = 1 },
	{ .name = "anonuid", .apply = apply_anon_id },
	{ .name = "async", .apply = apply_async, .arg = true },
	{ .name = "auth_nlm", .apply = apply_nothing },
	{ .name = "crossmnt", .apply = apply_notice, .text = "file systems mounted below are not shown; export each" },
	{ .name = "fsid", .apply = apply_fsid },
	{ .name = "hide", .apply = apply_nothing },
	{ .name = "insecure", .apply = apply_insecure, .arg = true },
	{ .name = "insecure_locks", .apply = apply_notice, .text = "lock requests are authenticated as all others are" },
	{ .name = "misaligned_dontcache", .apply = apply_misaligned },
	{ .name = "mountpoint", .apply = apply_mountpoint },
	{ .name = "mp", .apply = apply_mountpoint },
	{ .name = "no_acl", .apply = apply_nothing },
	{ .name = "no_all_squash", .apply = apply_squash_all },
	{ .name = "no_auth_nlm", .apply = apply_notice, .text = "lock requests are authenticated as all others are" },
	{ .name = "no_pnfs", .apply = apply_nothing },
	{ .name = "no_root_squash", .apply = apply_squash_root },
	{ .name = "no_subtree_check", .apply = apply_nothing },
	{ .name = "no_wdelay", .apply = apply_nothing },
	{ .name = "nohide", .apply = apply_notice, .text = "file systems mounted below are not shown; mount this export by itself" },
	{ .name = "nordirplus", .apply = apply_notice, .text = "READDIRPLUS is always offered" },
	{ .name = "pnfs", .apply = apply_notice, .text = "there are no layouts" },
	{ .name = "read_mode", .apply = apply_mode },
	{ .name = "reexport", .apply = apply_refuse, .text = "an NFS mount has no handles that could be passed on" },
	{ .name = "refer", .apply = apply_refuse, .text = "there are no referrals" },
	{ .name = "replicas", .apply = apply_refuse, .text = "there are no referrals" },
	{ .name = "ro", .apply = apply_read_only, .arg = true },
	{ .name = "root_squash", .apply = apply_squash_root, .arg = true },
	{ .name = "rw", .apply = apply_read_only },
	{ .name = "sec", .apply = apply_sec },
	{ .name = "secure", .apply = apply_insecure },
	{ .name = "secure_locks", .apply = apply_nothing },
	{ .name = "security_label", .apply = apply_notice, .text = "labels are not carried" },
	{ .name = "subtree_check", .apply = apply_notice, .text = "handles are signed, so that a client has only those that it was given" },
	{ .name = "sync", .apply = apply_async },
	{ .name = "wdelay", .apply = apply_nothing },
	{ .name = "write_mode", .apply = apply_mode, .arg = 1 },
	{ .name = "xprtsec", .apply = apply_xprtsec },
};

static const struct option_word *option_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(option_words); i++)
		if (!strcmp(name, option_words[i].name))
			return option_words + i;
	return NULL;
}

/* text: consumed. */
static int options_parse(struct parse *p, struct option_state *s, char *text)
{
	const struct option_word *word;
	char *name, *value;
	int err;

	s->sec_other = false;
	while ((name = strsep(&text, ","))) {
		if (!*name)
			continue;
		value = strchr(name, '=');
		if (value)
			*value++ = 0;
		word = option_find(name);
		if (!word)
			return parse_error(p, "unknown option '%s'", name);
		err = word->apply(p, s, word, value);
		if (err)
			return err;
	}
	return 0;
}

static struct option_state option_defaults(void)
{
	struct option_state s = {
		.options = {
			.read_only = true,
			.anon_uid = 65534, .anon_gid = 65534,
			.read_mode = EXPORT_MODE_DIRECT, .write_mode = EXPORT_MODE_DIRECT,
		},
		.squash_root = true,
	};

	return s;
}

static int options_finish(struct parse *p, const struct option_state *s, struct export_options *options)
{
	if (s->sec_given && !s->options.sec_sys)
		return parse_error(p, "of the flavours in sec=, none is supported yet but sys");
	*options = s->options;
	options->sec_sys = true;
	options->squash = s->squash_all ? SQUASH_ALL : s->squash_root ? SQUASH_ROOT : SQUASH_NONE;
	return 0;
}

char *export_path_normal(const char *path)
{
	char *normal = malloc(strlen(path) + 2), *to = normal;
	size_t len;

	if (!normal)
		return NULL;
	if (*path != '/')
		goto invalid;
	while (*path) {
		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 2 && !memcmp(path, "..", 2))
			goto invalid;
		if (len && !(len == 1 && *path == '.')) {
			*to++ = '/';
			to = mempcpy(to, path, len);
		}
		path += len;
	}
	if (to == normal)
		*to++ = '/';
	*to = 0;
	return normal;
invalid:
	free(normal);
	errno = EINVAL;
	return NULL;
}

static void client_free(struct export_client *c)
{
	if (c->view)
		export_view_put(c->view);
	free(c->addrs);
	free(c->spec);
	free(c->where);
	free(c);
}

static void entry_free(struct export_entry *e)
{
	struct export_client *c;

	while ((c = STAILQ_FIRST(&e->clients))) {
		STAILQ_REMOVE_HEAD(&e->clients, link);
		client_free(c);
	}
	if (e->export)
		export_put(e->export);
	free(e->mountpoint);
	free(e->where);
	free(e->path);
	free(e);
}

static struct export_entry *entry_new(struct parse *p, const char *path)
{
	struct export_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	STAILQ_INIT(&e->clients);
	e->where = strdup(p->where);
	e->path = e->where ? export_path_normal(path) : NULL;
	if (e->path)
		return e;
	entry_free(e);
	if (errno == EINVAL)
		parse_error(p, "'%s': an absolute path without '..' is wanted", path);
	return NULL;
}

struct export_table *export_table_new(void)
{
	struct export_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	STAILQ_INIT(&t->entries);
	STAILQ_INIT(&t->remarks);
	return t;
}

void export_table_free(struct export_table *t)
{
	struct export_entry *e;

	if (!t)
		return;
	while ((e = STAILQ_FIRST(&t->entries))) {
		STAILQ_REMOVE_HEAD(&t->entries, link);
		entry_free(e);
	}
	export_remarks_free(&t->remarks);
	free(t);
}

/* All clients of an export see one file system under one name: their fsid= must agree, and so must mountpoint=. */
static int entry_take_common(struct parse *p, struct export_entry *e, const struct option_state *s)
{
	struct export_client *c;

	STAILQ_FOREACH(c, &e->clients, link)
		if (s->options.has_fsid && c->options.has_fsid && s->options.fsid != c->options.fsid)
			return parse_error(p, "%s has two different fsid=", e->path);
	if (!s->mountpoint || e->mountpoint)
		return 0;
	e->mountpoint = *s->mountpoint ? export_path_normal(s->mountpoint) : strdup(e->path);
	return e->mountpoint ? 0 : parse_error(p, "'mountpoint=%s': not an absolute path", s->mountpoint);
}

static bool client_is_same(const struct export_client *a, const struct export_client *b)
{
	if (a->kind != b->kind || a->by_name != b->by_name)
		return false;
	if (a->by_name || a->kind == CLIENT_ANYBODY)
		return !strcasecmp(a->spec, b->spec);
	return !memcmp(&a->addr, &b->addr, sizeof(a->addr)) && !memcmp(&a->mask, &b->mask, sizeof(a->mask));
}

/* c is about to stand in e behind the others. Of two that are the same nobody comes to the second. */
static void remark_if_twice(struct parse *p, const struct export_entry *e, const struct export_client *c)
{
	const struct export_client *old;

	STAILQ_FOREACH(old, &e->clients, link) {
		if (!client_is_same(old, c))
			continue;
		export_remark_add(p->remarks, LOG_LEVEL_NOTICE, "%sexport %s: client %s stands there already (%sclient %s), and the first counts", c->where,
				  e->path, c->spec, old->where, old->spec);
		return;
	}
}

static int entry_add_client(struct parse *p, struct export_entry *e, const char *spec, const struct option_state *s)
{
	struct export_client *c = calloc(1, sizeof(*c));
	const char *why = NULL;
	int err = -ENOMEM;

	if (!c)
		return err;
	if (export_client_parse(spec, c, &why)) {
		err = parse_error(p, "client '%s': %s", spec, why);
		goto out_free;
	}
	err = options_finish(p, s, &c->options);
	if (!err)
		err = entry_take_common(p, e, s);
	if (err)
		goto out_free;
	c->spec = strdup(*spec ? spec : "*");
	c->where = strdup(p->where);
	if (!c->spec || !c->where) {
		err = -ENOMEM;
		goto out_free;
	}
	remark_if_twice(p, e, c);
	STAILQ_INSERT_TAIL(&e->clients, c, link);
	return 0;
out_free:
	client_free(c);
	return err;
}

/* `spec(options)`, `spec`, `(options)`; token: consumed. */
static int entry_add_token(struct parse *p, struct export_entry *e, const struct option_state *defaults, char *token)
{
	struct option_state s = *defaults;
	char *paren = strchr(token, '('), *end;
	int err;

	if (!paren)
		return entry_add_client(p, e, token, &s);
	end = strchr(paren, ')');
	if (!end || end[1])
		return parse_error(p, "'%s': the option list must end in ')', without blanks inside", token);
	*paren = 0;
	*end = 0;
	if (!*token)
		export_remark_add(p->remarks, LOG_LEVEL_WARNING, "%s'(%s)' stands without a client and is for everybody", p->where, paren + 1);
	err = options_parse(p, &s, paren + 1);
	return err ? err : entry_add_client(p, e, token, &s);
}

static int octal_digit(char c)
{
	return c >= '0' && c <= '7' ? c - '0' : -1;
}

/* \ooo at *text: its byte, text moves on; -1: something else. NUL cannot be part of a path. */
static int octal_escape(const char **text)
{
	const char *p = *text;
	int value;

	if (p[0] != '\\' || octal_digit(p[1]) < 0 || octal_digit(p[2]) < 0 || octal_digit(p[3]) < 0)
		return -1;
	value = octal_digit(p[1]) << 6 | octal_digit(p[2]) << 3 | octal_digit(p[3]);
	if (!value || value > 0xff)
		return -1;
	*text += 4;
	return value;
}

/* The next word to `token`, which is as large as the line: 1, 0 at the end or a comment, -EINVAL. */
static int token_next(struct parse *p, const char **line, char *token)
{
	bool quoted = false;
	const char *s = *line + strspn(*line, " \t\r\n");
	int byte;

	if (!*s || *s == '#')
		return 0;
	for (; *s && (quoted || !strchr(" \t\r\n", *s));) {
		if (*s == '"') {
			quoted = !quoted;
			s++;
			continue;
		}
		byte = octal_escape(&s);
		*token++ = byte >= 0 ? byte : *s++;
	}
	*token = 0;
	*line = s;
	return quoted ? parse_error(p, "a quoted path does not end") : 1;
}

static int entry_add_tokens(struct parse *p, struct export_entry *e, const char *line, char *token)
{
	struct option_state defaults = option_defaults();
	int more, err = 0;

	while (!err && (more = token_next(p, &line, token))) {
		if (more < 0)
			return more;
		err = *token == '-' ? options_parse(p, &defaults, token + 1) : entry_add_token(p, e, &defaults, token);
		/* mountpoint= of the defaults points into token, which the next word overwrites. */
		if (!err && defaults.mountpoint && !e->mountpoint)
			err = entry_take_common(p, e, &defaults);
	}
	if (!err && STAILQ_EMPTY(&e->clients)) {
		export_remark_add(p->remarks, LOG_LEVEL_WARNING, "%s%s names no client and is for everybody", p->where, e->path);
		err = entry_add_client(p, e, "", &defaults);
	}
	return err;
}

static struct export_entry *table_find(struct export_table *t, const char *path)
{
	struct export_entry *e;

	STAILQ_FOREACH(e, &t->entries, link)
		if (!strcmp(e->path, path))
			return e;
	return NULL;
}

static bool entry_has_fsid(const struct export_entry *e, uint64_t *fsid)
{
	const struct export_client *c;

	STAILQ_FOREACH(c, &e->clients, link)
		if (c->options.has_fsid) {
			*fsid = c->options.fsid;
			return true;
		}
	return false;
}

/* Several lines for one path are one export; e is taken over if that works. */
static int table_add(struct parse *p, struct export_table *t, struct export_entry *e)
{
	struct export_entry *old = table_find(t, e->path);
	const struct export_client *c;
	uint64_t a, b;

	if (!old) {
		STAILQ_INSERT_TAIL(&t->entries, e, link);
		return 0;
	}
	if (entry_has_fsid(old, &a) && entry_has_fsid(e, &b) && a != b)
		return parse_error(p, "%s has two different fsid=", e->path);
	STAILQ_FOREACH(c, &e->clients, link)
		remark_if_twice(p, old, c);
	STAILQ_CONCAT(&old->clients, &e->clients);
	if (!old->mountpoint) {
		old->mountpoint = e->mountpoint;
		e->mountpoint = NULL;
	}
	entry_free(e);
	return 0;
}

static int line_parse(struct parse *p, struct export_table *t, const char *line, char *token)
{
	struct export_entry *e;
	int err = token_next(p, &line, token);

	if (err <= 0)
		return err;
	errno = ENOMEM;
	e = entry_new(p, token);
	if (!e)
		return -errno;
	err = entry_add_tokens(p, e, line, token);
	if (!err)
		err = table_add(p, t, e);
	if (err)
		entry_free(e);
	return err;
}

int export_table_add_line(struct export_table *t, const char *line, const char *file, int lineno, char *errbuf, size_t errlen)
{
	char where[PATH_MAX + 16], *token = malloc(strlen(line) + 1);
	struct parse p = { .where = where, .what = "", .remarks = &t->remarks, .errbuf = errbuf, .errlen = errlen };
	int err;

	if (!token)
		return -ENOMEM;
	snprintf(where, sizeof(where), "%s:%d: ", file, lineno);
	err = line_parse(&p, t, line, token);
	free(token);
	return err;
}

/* Append a physical line to a logical one. True: it goes on in the next, since it ends in '\'. */
static bool line_append(char **line, size_t *len, const char *part, size_t part_len)
{
	bool more;
	char *grown;

	while (part_len && strchr("\r\n", part[part_len - 1]))
		part_len--;
	more = part_len && part[part_len - 1] == '\\';
	part_len -= more;
	grown = realloc(*line, *len + part_len + 2);
	ASSERT(grown);
	memcpy(grown + *len, part, part_len);
	*len += part_len;
	if (more)
		grown[(*len)++] = ' ';
	grown[*len] = 0;
	*line = grown;
	return more;
}

static int stream_add(struct export_table *t, FILE *in, const char *path, char *errbuf, size_t errlen)
{
	char *part = NULL, *line = NULL;
	size_t size = 0, len = 0;
	int lineno = 0, first = 1, err = 0;
	ssize_t n;

	while (!err && (n = getline(&part, &size, in)) >= 0) {
		lineno++;
		if (line_append(&line, &len, part, n))
			continue;
		err = strlen(line) != len ? -EINVAL : export_table_add_line(t, line, path, first, errbuf, errlen);
		if (strlen(line) != len)
			snprintf(errbuf, errlen, "%s:%d: a NUL byte", path, first);
		first = lineno + 1;
		len = 0;
	}
	if (!err && len)
		err = export_table_add_line(t, line, path, first, errbuf, errlen);
	free(part);
	free(line);
	return err;
}

static int is_exports_name(const struct dirent *d)
{
	const size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > 8 && !strcmp(d->d_name + len - 8, ".exports");
}

static int file_error(const char *path, int err, const char *why, char *errbuf, size_t errlen)
{
	snprintf(errbuf, errlen, "%s: %s", path, why);
	return err;
}

static int directory_add(struct export_table *t, const char *path, char *errbuf, size_t errlen)
{
	struct dirent **names;
	int n = scandir(path, &names, is_exports_name, alphasort), err = 0;
	char file[PATH_MAX];

	if (n < 0)
		return file_error(path, -errno, strerror(errno), errbuf, errlen);
	for (int i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		if (!err)
			err = export_table_add_file(t, file, errbuf, errlen);
		free(names[i]);
	}
	free(names);
	return err;
}

int export_table_add_file(struct export_table *t, const char *path, char *errbuf, size_t errlen)
{
	struct text_file file;
	const char *why;
	int err = text_file_open(&file, path, TEXT_FILE_BYTES_MAX, &why);

	if (err == -EISDIR)
		return directory_add(t, path, errbuf, errlen);
	if (err)
		return file_error(path, err, why, errbuf, errlen);
	err = stream_add(t, file.f, path, errbuf, errlen);
	text_file_close(&file);
	return err;
}

/* Cut 'PATH(options)' in two; *options: NULL without any. What looks like a line of exports(5) is not taken for a path with a blank in it. */
static int cli_split(struct parse *p, char *path, char **options)
{
	char *end = path + strlen(path);
	struct stat st;

	*options = strrchr(path, '(');
	if (*options && end[-1] == ')') {
		end[-1] = 0;
		*(*options)++ = 0;
	} else if (*options && !strchr(*options, ')')) {
		return parse_error(p, "the list of options does not end in ')'");
	} else {
		*options = NULL;
	}
	if (*p->where && strstr(path, " #") && stat(path, &st))
		return parse_error(p, "there is no directory '%s'; a comment behind a value begins with ' ;'", path);
	if (strpbrk(path, " \t") && stat(path, &st))
		return parse_error(p, "there is no directory '%s'; an export here is PATH(options), for every client: clients are named in an exports file (--exports, or file = in [exports])", path);
	return 0;
}

/* The entry of 'PATH(options)'; path: consumed. NULL with *err. */
static struct export_entry *cli_entry(struct parse *p, char *path, int *err)
{
	struct option_state s = option_defaults();
	struct export_entry *e = NULL;
	char *options;

	s.options.read_only = false;
	s.options.insecure = true;
	*err = cli_split(p, path, &options);
	if (!*err && options)
		*err = options_parse(p, &s, options);
	if (*err)
		return NULL;
	errno = ENOMEM;
	e = entry_new(p, path);
	*err = e ? entry_add_client(p, e, "*", &s) : -errno;
	if (!*err)
		return e;
	if (e)
		entry_free(e);
	return NULL;
}

int export_table_add_cli(struct export_table *t, const char *spec, const char *where, char *errbuf, size_t errlen)
{
	char what[256], *path = strdup(spec);
	struct parse p = { .where = where, .what = what, .remarks = &t->remarks, .errbuf = errbuf, .errlen = errlen };
	const struct export_entry *old;
	struct export_entry *e;
	int err = -ENOMEM;

	snprintf(what, sizeof(what), "export '%.200s': ", spec);
	e = path ? cli_entry(&p, path, &err) : NULL;
	free(path);
	if (!e)
		return err;
	old = table_find(t, e->path);
	if (old)
		err = parse_error(&p, "exported already (%sexport %s); give all its options at once", old->where, old->path);
	else
		err = table_add(&p, t, e);
	if (err)
		entry_free(e);
	return err;
}
