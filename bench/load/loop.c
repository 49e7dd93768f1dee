// SPDX-License-Identifier: Apache-2.0
/*
 * The system calls of a load and nothing else: no clock between them, no histogram, no choice of content.
 *
 *   loop write FILE COUNT BYTES     COUNT writes of BYTES at random places of FILE
 *   loop read FILE BYTES            FILE from its beginning to its end in pieces of BYTES
 *   loop visit LIST ROUNDS BYTES    open, seek, read to the end in pieces of BYTES, close: every file in LIST
 *   loop churn LIST ROUNDS          create, write as much as is said there, close, delete: every file in LIST
 *
 * With the word "thread" before them, the last two do so in a thread: some system calls are dearer to a process with two.
 *
 * LIST is a file of lines with a path and a size of up to 1 MiB.
 * Prints the nanoseconds per write, read or file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATHS_MAX 1000000

static char *paths[PATHS_MAX], *folders[PATHS_MAX];
static size_t sizes[PATHS_MAX];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static char *new_buffer(size_t bytes)
{
	char *buffer = aligned_alloc(4096, bytes);
	uint64_t state = 88172645463325252u;

	if (!buffer)
		fail("aligned_alloc");
	for (size_t at = 0; at < bytes; at++)
		buffer[at] = (char)next_random(&state);
	return buffer;
}

static size_t read_list(const char *name)
{
	char line[4096];
	size_t count = 0;
	FILE *list = fopen(name, "r");

	if (!list)
		fail(name);
	while (count < PATHS_MAX && fgets(line, sizeof(line), list)) {
		char *end = strchr(line, ' ');

		if (!end)
			fail(name);
		*end = 0;
		sizes[count] = strtoull(end + 1, NULL, 10);
		paths[count] = strdup(line);
		*strrchr(line, '/') = 0;
		folders[count++] = strdup(line);
	}
	fclose(list);
	return count;
}

static uint64_t write_at_random(const char *name, uint64_t count, size_t bytes)
{
	char *buffer = new_buffer(bytes);
	uint64_t state = 1442695040888963407u, places, start_ns;
	struct stat status;
	int file = open(name, O_WRONLY);

	if (file < 0 || fstat(file, &status))
		fail(name);
	places = (uint64_t)status.st_size / bytes;
	start_ns = now_ns();
	for (uint64_t done = 0; done < count; done++)
		if (pwrite(file, buffer, bytes, (off_t)(next_random(&state) % places * bytes)) != (ssize_t)bytes)
			fail("pwrite");
	return now_ns() - start_ns;
}

static uint64_t read_linearly(const char *name, size_t bytes, uint64_t *count)
{
	char *buffer = new_buffer(bytes);
	int file = open(name, O_RDONLY);
	uint64_t start_ns;
	ssize_t got;

	if (file < 0)
		fail(name);
	start_ns = now_ns();
	for (*count = 0; (got = read(file, buffer, bytes)) > 0; ++*count)
		;
	if (got < 0)
		fail("read");
	return now_ns() - start_ns;
}

static uint64_t visit(size_t files, int rounds, size_t bytes)
{
	char *buffer = new_buffer(bytes);
	uint64_t start_ns = now_ns();

	for (int round = 0; round < rounds; round++)
		for (size_t at = 0; at < files; at++) {
			int file = open(paths[at], O_RDONLY | O_CLOEXEC);
			ssize_t got;

			if (file < 0 || lseek(file, 0, SEEK_SET))
				fail(paths[at]);
			while ((got = read(file, buffer, bytes)) > 0)
				;
			if (got < 0 || close(file))
				fail(paths[at]);
		}
	return now_ns() - start_ns;
}

static uint64_t churn(size_t files, int rounds)
{
	char *buffer = new_buffer(1 << 20);
	uint64_t start_ns = now_ns();
	struct stat status;

	for (int round = 0; round < rounds; round++)
		for (size_t at = 0; at < files; at++) {
			int file;

			/* As filebench, and so the load generator, looks whether the folder is there. */
			if (stat(folders[at], &status))
				fail(folders[at]);
			file = open(paths[at], O_CREAT | O_RDWR | O_CLOEXEC, 0644);
			if (file < 0)
				fail(paths[at]);
			if (write(file, buffer, sizes[at]) != (ssize_t)sizes[at] || close(file) || unlink(paths[at]))
				fail(paths[at]);
		}
	return now_ns() - start_ns;
}

struct work {
	size_t files, bytes;
	int rounds;
	uint64_t took_ns;
};

static void *visit_or_churn(void *argument)
{
	struct work *work = argument;

	work->took_ns = work->bytes ? visit(work->files, work->rounds, work->bytes) : churn(work->files, work->rounds);
	return NULL;
}

static uint64_t run(struct work *work, bool in_thread)
{
	pthread_t thread;

	if (!in_thread)
		visit_or_churn(work);
	else if (pthread_create(&thread, NULL, visit_or_churn, work) || pthread_join(thread, NULL))
		fail("pthread");
	return work->took_ns;
}

int main(int argc, char **argv)
{
	bool in_thread = argc > 1 && !strcmp(argv[1], "thread");
	uint64_t count = 0, took_ns = 0;

	argc -= in_thread;
	argv += in_thread;
	if (argc == 5 && !strcmp(argv[1], "write")) {
		count = strtoull(argv[3], NULL, 10);
		took_ns = write_at_random(argv[2], count, strtoull(argv[4], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "read")) {
		took_ns = read_linearly(argv[2], strtoull(argv[3], NULL, 10), &count);
	} else if (argc == 5 && !strcmp(argv[1], "visit")) {
		struct work work = { read_list(argv[2]), strtoull(argv[4], NULL, 10), atoi(argv[3]), 0 };

		count = work.files * strtoull(argv[3], NULL, 10);
		took_ns = run(&work, in_thread);
	} else if (argc == 4 && !strcmp(argv[1], "churn")) {
		struct work work = { read_list(argv[2]), 0, atoi(argv[3]), 0 };

		count = work.files * strtoull(argv[3], NULL, 10);
		took_ns = run(&work, in_thread);
	}
	if (!count) {
		fprintf(stderr, "loop: see its source for what it takes\n");
		return 2;
	}
	printf("%.1f\n", (double)took_ns / (double)count);
	return 0;
}
