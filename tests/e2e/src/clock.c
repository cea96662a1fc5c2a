/* The wall clock of one host, for LD_PRELOAD: the machine's, and as many seconds more as the file that CLOCK_OFFSET names says now. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CLOCK_OFFSET");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);

    if (file >= 0) {
        void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);

        if (page != MAP_FAILED)
            offset = page;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *moment)
{
    int outcome = (int) syscall(SYS_clock_gettime, clock, moment);

    if (outcome == 0 && offset != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        moment->tv_sec += *offset;
    return outcome;
}

int gettimeofday(struct timeval *restrict moment, void *restrict zone)
{
    struct timespec precise;

    (void) zone;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0)
        return -1;
    moment->tv_sec = precise.tv_sec;
    moment->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec precise;

    if (clock_gettime(CLOCK_REALTIME, &precise) != 0)
        return -1;
    if (out != NULL)
        *out = precise.tv_sec;
    return precise.tv_sec;
}
