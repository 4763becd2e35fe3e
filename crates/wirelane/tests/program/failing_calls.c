// Preloaded into a store: lets calls on files below a folder `data` fail, or ends the process at one of them.
//
// WIRELANE_FAULT=eio:N   every Nth write or sync of a value fails with EIO, before or after a part was done
// WIRELANE_FAULT=full:N  from the Nth call on, all that take space fail with ENOSPC, except fallocate, which the program calls without
//                        libc: so it learns only from the writes that there is no space
// WIRELANE_FAULT=kill:N  at the Nth call the process ends at once, as by SIGKILL
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls;
static char kind[8];
static int number;

__attribute__((constructor)) static void read_fault(void) {
    const char *fault = getenv("WIRELANE_FAULT");
    if (fault) sscanf(fault, "%7[a-z]:%d", kind, &number);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_data(const char *path) { return path && strstr(path, "/data") != NULL; }

static int is_data_file(int fd, int only_values) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (only_values) return strstr(path, "/data/log/") || strstr(path, "/data/long/");
    return is_data(path);
}

// Counts a call; returns the error that it ends with, or 0.
static int fault(int takes_space) {
    if (!strcmp(kind, "kill") && atomic_fetch_add(&calls, 1) + 1 == number) {
        raise(SIGKILL);
    }
    if (!strcmp(kind, "full") && takes_space && atomic_fetch_add(&calls, 1) + 1 >= number) {
        return errno = ENOSPC;
    }
    return 0;
}

static int fails_with_eio(int fd) {
    return !strcmp(kind, "eio") && is_data_file(fd, 1) && atomic_fetch_add(&calls, 1) % number == number - 1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    if (fails_with_eio(fd)) {
        if (length > 100) REAL(pwrite64)(fd, bytes, length / 2, at);
        errno = EIO;
        return -1;
    }
    if (is_data_file(fd, 0) && fault(1)) return -1;
    return REAL(pwrite64)(fd, bytes, length, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return pwrite64(fd, bytes, length, at); }

ssize_t write(int fd, const void *bytes, size_t length) {
    if (is_data_file(fd, 0) && fault(1)) return -1;
    return REAL(write)(fd, bytes, length);
}

int fdatasync(int fd) {
    if (is_data_file(fd, 0)) fault(0);
    int fails = fails_with_eio(fd), done = REAL(fdatasync)(fd);
    if (!fails) return done;
    errno = EIO;
    return -1;
}

int fsync(int fd) {
    if (is_data_file(fd, 0)) fault(0);
    return REAL(fsync)(fd);
}

int ftruncate64(int fd, off64_t length) {
    if (is_data_file(fd, 0)) fault(0);
    return REAL(ftruncate64)(fd, length);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (flags & O_CREAT && is_data(path) && access(path, F_OK) && fault(1)) return -1;
    return REAL(open64)(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    if (is_data(path) && fault(1)) return -1;
    return REAL(mkdir)(path, mode);
}

int rename(const char *from, const char *to) {
    if (is_data(to)) fault(0);
    return REAL(rename)(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    if (is_data(to) && fault(1)) return -1;
    return REAL(linkat)(from_folder, from, to_folder, to, flags);
}

int unlink(const char *path) {
    if (is_data(path)) fault(0);
    return REAL(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags) {
    if (is_data_file(folder, 0)) fault(0);
    return REAL(unlinkat)(folder, path, flags);
}
