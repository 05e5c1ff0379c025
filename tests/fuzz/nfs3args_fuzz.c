/*
 * tests/fuzz/nfs3args_fuzz.c - the arguments of all NFSv3 procedures, and WRITE's head while its payload is still to come.
 */
#include "tests/fuzz/nfs3_fuzz.h"

/* The head alone decodes exactly if the whole does not fail before the payload. */
static void try_write_head(const uint8_t *data, size_t size)
{
	size_t have = size < NFS3_WRITE3ARGS_HEAD_BYTES_MAX ? size : NFS3_WRITE3ARGS_HEAD_BYTES_MAX;
	struct WRITE3args head, whole;
	struct xdr x, y;

	xdr_init(&x, data, have);
	xdr_init(&y, data, size);
	if (!xdr_dec_WRITE3args_head(&x, &head)) {
		must(!xdr_dec_WRITE3args(&y, &whole), "no head, no WRITE");
		must(size <= have || !xdr_is_truncated(&x), "a head never needs more than its maximum");
		return;
	}
	if (xdr_dec_WRITE3args(&y, &whole)) {
		must(whole.data.ptr == data + xdr_pos(&x), "the payload begins where the head ends");
		must(whole.data.len == head.count && whole.offset == head.offset, "head and whole agree");
	} else {
		must(xdr_is_truncated(&y), "after a good head only payload can be missing");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct nfs3_codec *c;

	if (size == 0)
		return 0;
	c = &nfs3_codecs[data[0] % (NFS3_MESSAGE_COUNT / 2) * 2];
	fuzz_nfs3_message(c, data + 1, size - 1);
	if (c == &nfs3_codecs[MSG_WRITE3args])
		try_write_head(data + 1, size - 1);
	return 0;
}
