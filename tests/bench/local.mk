# tests/bench: load generators and their driver (included by tests/local.mk); built always, run by hand (tests/bench/README)

noinst_PROGRAMS += tests/bench/nfsload
BENCH_COMMON = tests/bench/sample.c tests/bench/sample.h tests/bench/pattern.c tests/bench/pattern.h
tests_bench_nfsload_SOURCES = tests/bench/nfsload.c tests/bench/client.c tests/bench/client.h tests/bench/files.c tests/bench/files.h tests/bench/metadata.c \
	tests/bench/metadata.h tests/bench/verify.c tests/bench/verify.h $(BENCH_COMMON)
tests_bench_nfsload_CFLAGS = $(AM_CFLAGS) $(LIBNFS_CFLAGS)
tests_bench_nfsload_LDADD = $(LIBNFS_LIBS)

# A few seconds: that the bench works, not how fast anything is.
if !SANITIZED
TESTS += tests/bench/smoke_test
endif
EXTRA_DIST += docs/bench.md docs/bench.svg tests/bench/README tests/bench/run tests/bench/measure tests/bench/plot tests/bench/summary tests/bench/scale tests/bench/knfsd tests/bench/smoke_test

noinst_PROGRAMS += tests/bench/local
tests_bench_local_SOURCES = tests/bench/local.c tests/bench/local_calls.c tests/bench/local_calls.h $(BENCH_COMMON)
tests_bench_local_LDADD = $(URING_LIBS) -lpthread
