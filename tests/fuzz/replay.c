/*
 * tests/fuzz/replay.c - runs a fuzz target over its committed corpus: every file of $srcdir/tests/fuzz/corpus/NAME, or the files given as arguments.
 *
 * NAME is the program's own name without "_fuzz". Each input stands before an inaccessible page, so that an over-read shows without a sanitizer.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/guard.h"

enum { INPUT_MAX = 1 << 20 };

static int replay_file(const char *path)
{
	static uint8_t buf[INPUT_MAX];
	FILE *file = fopen(path, "rb");
	struct guard g;
	size_t len;

	if (!file)
		return -errno;
	len = fread(buf, 1, sizeof(buf), file);
	fclose(file);
	/* Printed before, so that the log of a crash ends with its input. */
	printf("%s (%zu bytes)\n", path, len);
	fflush(stdout);
	LLVMFuzzerTestOneInput(guard_copy(&g, buf, len), len);
	guard_free(&g);
	return 0;
}

static int replay_dir(const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort), replayed = 0;

	for (int i = 0; i < n; i++) {
		char path[PATH_MAX + NAME_MAX + 2];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		if (names[i]->d_name[0] != '.' && replay_file(path) == 0)
			replayed++;
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return replayed;
}

int main(int argc, char **argv)
{
	const char *top = getenv("srcdir"), *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	char dir[PATH_MAX];
	int replayed = 0;

	for (int i = 1; i < argc; i++)
		replayed += replay_file(argv[i]) == 0;
	if (argc == 1) {
		snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/%.*s", top ? top : ".", (int)strcspn(name, "_"), name);
		replayed = replay_dir(dir);
	}
	/* A target is one test, however many inputs it has; one that found none has tested nothing. */
	printf("%d inputs replayed\n%d passed, %d failed, 0 skipped\n", replayed, replayed > 0, replayed == 0);
	return replayed == 0;
}
