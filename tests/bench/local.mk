# tests/bench: load generators and their driver (included by tests/local.mk); built always, run by hand (tests/bench/README)

noinst_PROGRAMS += tests/bench/nfsload
BENCH_COMMON = tests/bench/sample.c tests/bench/sample.h tests/bench/pattern.c tests/bench/pattern.h
tests_bench_nfsload_SOURCES = tests/bench/nfsload.c tests/bench/client.c tests/bench/client.h tests/bench/metadata.c \
	tests/bench/metadata.h tests/bench/verify.c tests/bench/verify.h $(BENCH_COMMON)
tests_bench_nfsload_CFLAGS = $(AM_CFLAGS) $(LIBNFS_CFLAGS)
tests_bench_nfsload_LDADD = $(LIBNFS_LIBS)
EXTRA_DIST += tests/bench/run tests/bench/measure

noinst_PROGRAMS += tests/bench/local
tests_bench_local_SOURCES = tests/bench/local.c $(BENCH_COMMON)
tests_bench_local_LDADD = $(URING_LIBS) -lpthread
