/* iocache/folio.c - see folio.h. Folio structs come from the C library's allocator: 300 bytes, of constant size, bounded by the memory bounds of their bufs. */
#include "iocache/folio.h"

#include <stdlib.h>

#include "runtime/buf.h"
#include "runtime/counter.h"
#include "runtime/fault.h"

COUNTER_DEFINE(folios, "cache.folios");

static struct folio *folio_alloc(uint64_t start, uint32_t len)
{
	struct folio *f = fault_hit(FAULT_FOLIO_ALLOC) ? NULL : calloc(1, sizeof *f);

	if (!f)
		return NULL;
	f->start = start;
	f->len = len;
	counter_add(&folios, 1);
	return f;
}

noyield_fn struct folio *folio_alloc_owned(uint64_t start, uint32_t unit)
{
	struct folio *f = folio_alloc(start, unit);

	if (!f)
		return NULL;
	f->buf = buf_alloc(unit);
	if (!f->buf) {
		folio_free(f);
		return NULL;
	}
	f->data = f->buf->data;
	return f;
}

noyield_fn struct folio *folio_alloc_large(uint64_t start, uint32_t len)
{
	struct folio *f = folio_alloc_owned(start, len);

	if (f)
		f->large = true;
	return f;
}

noyield_fn int folio_attach(struct folio *f, uint32_t block)
{
	ASSERT(f->large);
	if (f->blocks)
		return 0;
	f->blocks = blocks_alloc(block, f->len / block, true, f->dirty_seq != 0);
	if (!f->blocks)
		return -ENOMEM;
	if (f->run)
		bits_set(f->blocks->flight, 0, f->blocks->count);
	return 0;
}

noyield_fn bool folio_is_whole(const struct folio *f)
{
	if (f->large)
		return !f->blocks || bits_all(f->blocks->uptodate, 0, f->blocks->count);
	return f->adopted || byteset_covers(&f->valid, 0, f->len);
}

noyield_fn struct folio *folio_alloc_adopted(uint64_t start, uint32_t len, struct buf *b, uint8_t *data)
{
	struct folio *f = folio_alloc(start, len);

	if (!f)
		return NULL;
	f->adopted = f->mark = true;
	f->buf = buf_get(b);
	f->data = data;
	return f;
}

noyield_fn void folio_free(struct folio *f)
{
	ASSERT(!f->is_kept);
	if (f->buf)
		buf_put(f->buf);
	counter_add(&folios, -1);
	free(f->blocks);
	free(f);
}

noyield_fn bool folio_is_complete(const struct folio *f, uint32_t unit)
{
	return f->adopted || f->large || byteset_covers(&f->written, 0, unit);
}

noyield_fn bool folio_is_private(const struct folio *f)
{
	return !f->adopted && !f->run && buf_is_exclusive(f->buf);
}
