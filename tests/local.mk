# tests: what belongs to no single folder (included by Makefile.am)

# CRITERION_VERBOSITY_LEVEL=1 makes Criterion name skipped tests with their reasons.
AM_TESTS_ENVIRONMENT = \
	export CRITERION_VERBOSITY_LEVEL=1; \
	export NFSDIRECTD='$(abs_builddir)/nfsdirectd'; \
	export CC='$(CC)' CPPFLAGS='-I$(abs_builddir)'; \
	export ASAN_OPTIONS=abort_on_error=0:detect_stack_use_after_return=0; \
	export UBSAN_OPTIONS=print_stacktrace=1; \
	export TSAN_OPTIONS=second_deadlock_stack=1:halt_on_error=0; \
	$(SANITIZED_ENVIRONMENT)
if SANITIZED
SANITIZED_ENVIRONMENT = export DATA_SIM_SEEDS=100; export E2E_MODEL_SEEDS=2; export E2E_MILL_SEEDS=1; export E2E_BUDGET_FILES=400; export EDGE_MODEL_OPTIONS=$(EDGE_MODEL_SANITIZED);
if TSAN
EDGE_MODEL_SANITIZED = skip
else
EDGE_MODEL_SANITIZED = --few
endif
endif
LOG_COMPILER = $(srcdir)/tests/run-test

if TSAN
noinst_LIBRARIES += libcriterion_tsan.a
endif
libcriterion_tsan_a_SOURCES = tests/criterion-tsan/runner.c tests/criterion-tsan/criterion/criterion.h

# What reads only sources is run once, not in every build.
if !SANITIZED
TESTS += tests/layering tests/layering_test
endif
EXTRA_DIST += tests/layering tests/layering_test tests/tally tests/run-test

# Bugs put into the cache by hand (tests/mutants/run): here only whether each still fits the tree.
if !SANITIZED
TESTS += tests/mutants/list_test
endif
EXTRA_DIST += tests/mutants/list_test tests/mutants/run tests/mutants/LIST

TESTS += tests/lab/lab_test
EXTRA_DIST += tests/lab/lab_test tests/lab/lab.sh

include tests/e2e/local.mk
include tests/bench/local.mk
include tests/model/local.mk

# The data path on the simulated backend: a fixed set of seeds; more by hand (tests/sim/data_sim --minutes 60).
noinst_PROGRAMS += tests/sim/data_sim
TESTS += tests/sim/data_sim_test
EXTRA_DIST += tests/sim/data_sim_test
tests_sim_data_sim_SOURCES = tests/sim/data_sim.c
tests_sim_data_sim_LDADD = libvfs.a libiocache.a libruntime.a $(RUNTIME_LIBS)

# Each line of the write path's requirements has a test (tests/WRITE_PATH is the table), and these are those that have no other place.
if !SANITIZED
TESTS += tests/write_path_test
endif
EXTRA_DIST += tests/write_path_test tests/WRITE_PATH
WRITE_PATH_HARNESS = tests/unit/write_path_harness.c tests/unit/write_path_harness.h
WRITE_PATH_LIBS = libvfs.a libiocache.a libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/write_path_large_test
TESTS += tests/unit/write_path_large_test
tests_unit_write_path_large_test_SOURCES = tests/unit/write_path_large_test.c $(WRITE_PATH_HARNESS)
tests_unit_write_path_large_test_LDADD = $(WRITE_PATH_LIBS)
check_PROGRAMS += tests/unit/write_path_walk_test
TESTS += tests/unit/write_path_walk_test
tests_unit_write_path_walk_test_SOURCES = tests/unit/write_path_walk_test.c $(WRITE_PATH_HARNESS)
tests_unit_write_path_walk_test_LDADD = $(WRITE_PATH_LIBS)
check_PROGRAMS += tests/unit/write_path_split_test
TESTS += tests/unit/write_path_split_test
tests_unit_write_path_split_test_SOURCES = tests/unit/write_path_split_test.c $(WRITE_PATH_HARNESS)
tests_unit_write_path_split_test_LDADD = $(WRITE_PATH_LIBS)
check_PROGRAMS += tests/unit/write_path_runs_test
TESTS += tests/unit/write_path_runs_test
tests_unit_write_path_runs_test_SOURCES = tests/unit/write_path_runs_test.c $(WRITE_PATH_HARNESS)
tests_unit_write_path_runs_test_LDADD = $(WRITE_PATH_LIBS)
check_PROGRAMS += tests/unit/write_path_edges_test
TESTS += tests/unit/write_path_edges_test
tests_unit_write_path_edges_test_SOURCES = tests/unit/write_path_edges_test.c $(WRITE_PATH_HARNESS)
tests_unit_write_path_edges_test_LDADD = $(WRITE_PATH_LIBS)
check_PROGRAMS += tests/unit/write_path_writeback_test
TESTS += tests/unit/write_path_writeback_test
tests_unit_write_path_writeback_test_SOURCES = tests/unit/write_path_writeback_test.c $(WRITE_PATH_HARNESS)
tests_unit_write_path_writeback_test_LDADD = $(WRITE_PATH_LIBS)
check_PROGRAMS += tests/unit/write_path_uncached_test
TESTS += tests/unit/write_path_uncached_test
tests_unit_write_path_uncached_test_SOURCES = tests/unit/write_path_uncached_test.c $(WRITE_PATH_HARNESS)
tests_unit_write_path_uncached_test_LDADD = $(WRITE_PATH_LIBS)
check_PROGRAMS += tests/unit/write_path_file_test
TESTS += tests/unit/write_path_file_test
tests_unit_write_path_file_test_SOURCES = tests/unit/write_path_file_test.c $(VFS_TEST_HARNESS)
tests_unit_write_path_file_test_LDADD = $(WRITE_PATH_LIBS)
check_PROGRAMS += tests/unit/write_path_blocks_test
TESTS += tests/unit/write_path_blocks_test
tests_unit_write_path_blocks_test_SOURCES = tests/unit/write_path_blocks_test.c $(WRITE_PATH_HARNESS)
tests_unit_write_path_blocks_test_LDADD = $(WRITE_PATH_LIBS)

# Tests that bugs of tests/mutants/LIST called for.
check_PROGRAMS += tests/unit/mutant_cache_test
TESTS += tests/unit/mutant_cache_test
tests_unit_mutant_cache_test_SOURCES = tests/unit/mutant_cache_test.c $(WRITE_PATH_HARNESS)
tests_unit_mutant_cache_test_LDADD = $(WRITE_PATH_LIBS)
