/*
 * vfs/export_remark.c - what there is to say about lines of exports, kept until it is clear whether they count.
 *
 * A table that is refused leaves one line in the log, its error: what else was found in it would only hide that. So remarks are kept with the table, in the
 * order of its lines, and logged once it is current. A refresh keeps them too: what it found the time before is not said again. Owned by whoever has the list.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "vfs/export_table.h"

struct export_remark {
	STAILQ_ENTRY(export_remark) link;
	enum log_level level;
	char *text;
};

void export_remark_add(struct export_remark_list *list, enum log_level level, const char *fmt, ...)
{
	struct export_remark *r = malloc(sizeof(*r));
	va_list ap;
	int len;

	ASSERT(r);
	r->level = level;
	va_start(ap, fmt);
	len = vasprintf(&r->text, fmt, ap);
	va_end(ap);
	ASSERT(len >= 0);
	STAILQ_INSERT_TAIL(list, r, link);
}

static void remark_log(const struct export_remark *r, struct log_limit *limit)
{
	if (limit)
		log_limited(limit, r->level, "%s", r->text);
	else
		log_write(r->level, "%s", r->text);
}

void export_remarks_log(struct export_remark_list *list, struct log_limit *limit)
{
	struct export_remark *r;

	STAILQ_FOREACH(r, list, link)
		remark_log(r, limit);
	export_remarks_free(list);
}

void export_remarks_free(struct export_remark_list *list)
{
	struct export_remark *r;

	while ((r = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, link);
		free(r->text);
		free(r);
	}
}
