// SPDX-License-Identifier: Apache-2.0
/* The processor's counter and the clock around the same writes: rdtsc and rdtscp. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static unsigned long long clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

int main(int count, char **words)
{
	int file = open(words[1], O_CREAT | O_WRONLY, 0600), bad = count != 2 || file < 0;
	unsigned int processor, processors = 0;
	unsigned long long counter = __rdtsc(), counter_p = __rdtscp(&processor), start = clock_ns(), last = counter_p;

	for (int i = 0; i < 20; i++) {
		bad |= pwrite(file, "x", 1, i * 4096) != 1 || fsync(file);
		unsigned long long now = i % 2 ? __rdtsc() : __rdtscp(&processor);
		processors |= processor;
		bad |= now <= last;
		last = now;
	}
	printf("rdtsc %llu rdtscp %llu clock %llu processors %u\n", __rdtsc() - counter, __rdtscp(&processor) - counter_p, clock_ns() - start,
	       processors);
	return bad;
}
