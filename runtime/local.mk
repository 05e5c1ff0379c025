# runtime: sources and tests of this folder (included by Makefile.am)
noinst_LIBRARIES += libruntime.a
libruntime_a_SOURCES = \
	runtime/backend.h \
	runtime/backend_poll.c \
	runtime/backend_real.c \
	runtime/backend_real.h \
	runtime/backend_uring.c \
	runtime/base.h \
	runtime/blocking.c \
	runtime/buf.c \
	runtime/buf.h \
	runtime/clock.c \
	runtime/clock.h \
	runtime/counter.c \
	runtime/counter.h \
	runtime/cred.c \
	runtime/cred.h \
	runtime/fault.c \
	runtime/fault.h \
	runtime/fiber.c \
	runtime/fiber.h \
	runtime/internal.h \
	runtime/io.c \
	runtime/io.h \
	runtime/log.c \
	runtime/log.h \
	runtime/pool.c \
	runtime/pool.h \
	runtime/reactor.c \
	runtime/reactor.h \
	runtime/sync.c \
	runtime/sync.h \
	runtime/text_file.c \
	runtime/text_file.h \
	runtime/timer.c

# The simulated backend.
libruntime_a_SOURCES += \
	runtime/sim.c \
	runtime/sim.h \
	runtime/sim_disk.c \
	runtime/sim_disk.h \
	runtime/sim_explore.c \
	runtime/sim_file.c \
	runtime/sim_net.c \
	runtime/sim_random.h \
	runtime/sim_world.h

check_PROGRAMS += tests/unit/sim_disk_test tests/unit/sim_test
TESTS += tests/unit/sim_disk_test tests/unit/sim_test
tests_unit_sim_disk_test_SOURCES = tests/unit/sim_disk_test.c
tests_unit_sim_disk_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)
tests_unit_sim_test_SOURCES = tests/unit/sim_test.c
tests_unit_sim_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/runtime_fiber_test
TESTS += tests/unit/runtime_fiber_test
tests_unit_runtime_fiber_test_SOURCES = tests/unit/runtime_fiber_test.c tests/unit/runtime_harness.h
tests_unit_runtime_fiber_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/runtime_io_test
TESTS += tests/unit/runtime_io_test
tests_unit_runtime_io_test_SOURCES = tests/unit/runtime_io_test.c tests/unit/runtime_harness.h
tests_unit_runtime_io_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/runtime_space_test
TESTS += tests/unit/runtime_space_test
tests_unit_runtime_space_test_SOURCES = tests/unit/runtime_space_test.c tests/unit/runtime_harness.h
tests_unit_runtime_space_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/runtime_reactor_test
TESTS += tests/unit/runtime_reactor_test
tests_unit_runtime_reactor_test_SOURCES = tests/unit/runtime_reactor_test.c tests/unit/runtime_harness.h
tests_unit_runtime_reactor_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/runtime_sync_test
TESTS += tests/unit/runtime_sync_test
tests_unit_runtime_sync_test_SOURCES = tests/unit/runtime_sync_test.c tests/unit/runtime_harness.h
tests_unit_runtime_sync_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/runtime_base_test
TESTS += tests/unit/runtime_base_test
tests_unit_runtime_base_test_SOURCES = tests/unit/runtime_base_test.c tests/unit/runtime_harness.h
tests_unit_runtime_base_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/runtime_buf_test
TESTS += tests/unit/runtime_buf_test
tests_unit_runtime_buf_test_SOURCES = tests/unit/runtime_buf_test.c tests/unit/runtime_harness.h
tests_unit_runtime_buf_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/runtime_pool_test
TESTS += tests/unit/runtime_pool_test
tests_unit_runtime_pool_test_SOURCES = tests/unit/runtime_pool_test.c tests/unit/runtime_harness.h
tests_unit_runtime_pool_test_LDADD = libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/bench/fiber_bench
tests_bench_fiber_bench_SOURCES = tests/bench/fiber_bench.c
tests_bench_fiber_bench_LDADD = libruntime.a $(RUNTIME_LIBS)

EXTRA_DIST += tests/gdb/fibers.py tests/gdb/fibers_test
if !SANITIZED
TESTS += tests/gdb/fibers_test
endif
