/*
 * tests/fuzz/nfs3res_fuzz.c - the results of all NFSv3 procedures, which tests and tools decode.
 */
#include "tests/fuzz/nfs3_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size)
		fuzz_nfs3_message(&nfs3_codecs[data[0] % (NFS3_MESSAGE_COUNT / 2) * 2 + 1], data + 1, size - 1);
	return 0;
}
