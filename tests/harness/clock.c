/* Preloaded into a process, this shifts its wall clock by the milliseconds in the file HARNESS_CLOCK, at any moment.
   Monotonic clocks stay as they are: a corrected or leaping system clock leaves them alone too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift_ms;

__attribute__((constructor)) static void open_shift(void) {
    const char *path = getenv("HARNESS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) shift_ms = mapped;
    close(file);
}

static void add(struct timespec *t, int64_t ms) {
    int64_t ns = t->tv_nsec + (ms % 1000) * 1000000;
    t->tv_sec += ms / 1000 + (ns >= 1000000000) - (ns < 0);
    t->tv_nsec = (ns + 1000000000) % 1000000000;
}

int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, t);
    if (result == 0 && shift_ms && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) add(t, *shift_ms);
    return result;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}

/* The kernel's clock is not shifted, so deadlines on the wall clock go to it shifted back. No uptime is that large. */
static struct timespec unshifted(const struct timespec *deadline) {
    struct timespec moved = *deadline;
    if (shift_ms && deadline->tv_sec > 1000000000) add(&moved, -*shift_ms);
    return moved;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec moved = unshifted(deadline);
    return real(condition, mutex, &moved);
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict deadline) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec moved = unshifted(deadline);
    return real(condition, mutex, &moved);
}
