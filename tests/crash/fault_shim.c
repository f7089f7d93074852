/* Fails one chosen system call of the program it is preloaded into (LD_PRELOAD).
 *
 * The program arms it from within:
 *
 *     fault_arm(nth, how, error)   the nth watched call from now on misbehaves
 *     fault_second(nth, error)     and so does this one, with error; 0 means that the process is killed instead
 *     fault_disarm()               nothing misbehaves any more
 *     fault_calls()                names of the watched calls since fault_arm, separated by spaces
 *
 * how: ONCE     that call fails with error
 *      ALWAYS   that call and all calls of the same name after it fail with error
 *      SHORT    if it is a write: half of the bytes are written, and the call says so
 *      CUT      as SHORT, and every later write fails with error
 *      DIE      the process is killed before the call
 *      DONE     the process is killed after the call
 *
 * A close that "fails" has closed its descriptor, as on Linux. Nothing but the calls of one append is meant to
 * run while it is armed: it is not made for threads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { ONCE, ALWAYS, SHORT, CUT, DIE, DONE };

static int armed, wanted, manner, number, seen, second, second_number;
static char victim[16];
static char names[8192];

void fault_arm(int nth, int how, int error)
{
	wanted = nth;
	manner = how;
	number = error;
	seen = second = 0;
	victim[0] = names[0] = '\0';
	armed = 1;
}

void fault_second(int nth, int error)
{
	second = nth;
	second_number = error;
}

void fault_disarm(void) { armed = 0; }

const char *fault_calls(void) { return names; }

static void die(void) { kill(getpid(), SIGKILL); }

/* Counts a call. Returns 1 if it must fail, 2 if it must be short, 3 if the process dies after it. */
static int verdict(const char *name)
{
	if (!armed)
		return 0;
	if (strlen(names) + strlen(name) + 2 < sizeof names) {
		strcat(names, name);
		strcat(names, " ");
	}
	if (++seen == second) {
		if (!second_number)
			die();
		errno = second_number;
		return 1;
	}
	if (seen == wanted) {
		strcpy(victim, name);
		switch (manner) {
		case DIE:
			die();
			break;
		case DONE:
			return 3;
		case SHORT:
		case CUT:
			return strcmp(name, "write") == 0 ? 2 : 0;
		default:
			errno = number;
			return 1;
		}
	}
	if (victim[0] && strcmp(victim, name) == 0 && (manner == ALWAYS || manner == CUT)) {
		errno = number;
		return 1;
	}
	return 0;
}

#define WATCH(type, symbol, name, parameters, arguments)              \
	type symbol parameters                                       \
	{                                                            \
		static type(*real) parameters;                       \
		int v;                                               \
		type result;                                         \
		if (!real)                                           \
			real = (type(*) parameters)dlsym(RTLD_NEXT, #symbol); \
		v = verdict(name);                                   \
		if (v == 1)                                          \
			return -1;                                   \
		result = real arguments;                             \
		if (v == 3)                                          \
			die();                                       \
		return result;                                       \
	}

WATCH(int, flock, "flock", (int fd, int operation), (fd, operation))
WATCH(int, fsync, "fsync", (int fd), (fd))
WATCH(int, fdatasync, "fdatasync", (int fd), (fd))
WATCH(int, mkdir, "mkdir", (const char *path, mode_t mode), (path, mode))
WATCH(int, chmod, "chmod", (const char *path, mode_t mode), (path, mode))
WATCH(int, fchmod, "fchmod", (int fd, mode_t mode), (fd, mode))
WATCH(int, ftruncate, "ftruncate", (int fd, off_t size), (fd, size))
WATCH(int, ftruncate64, "ftruncate", (int fd, off64_t size), (fd, size))
WATCH(off_t, lseek, "lseek", (int fd, off_t offset, int whence), (fd, offset, whence))
WATCH(off64_t, lseek64, "lseek", (int fd, off64_t offset, int whence), (fd, offset, whence))
WATCH(ssize_t, read, "read", (int fd, void *to, size_t count), (fd, to, count))
WATCH(ssize_t, pread, "pread", (int fd, void *to, size_t count, off_t at), (fd, to, count, at))
WATCH(ssize_t, pread64, "pread", (int fd, void *to, size_t count, off64_t at), (fd, to, count, at))
WATCH(int, fstat, "stat", (int fd, struct stat *to), (fd, to))
WATCH(int, fstat64, "stat", (int fd, struct stat64 *to), (fd, to))
WATCH(int, stat, "stat", (const char *path, struct stat *to), (path, to))
WATCH(int, stat64, "stat", (const char *path, struct stat64 *to), (path, to))
WATCH(int, lstat, "stat", (const char *path, struct stat *to), (path, to))
WATCH(int, lstat64, "stat", (const char *path, struct stat64 *to), (path, to))

ssize_t write(int fd, const void *from, size_t count)
{
	static ssize_t (*real)(int, const void *, size_t);
	int v;
	ssize_t result;
	if (!real)
		real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	v = verdict("write");
	if (v == 1)
		return -1;
	result = real(fd, from, v == 2 && count > 1 ? count / 2 : count);
	if (v == 3)
		die();
	return result;
}

int close(int fd)
{
	static int (*real)(int);
	int v, result;
	if (!real)
		real = (int (*)(int))dlsym(RTLD_NEXT, "close");
	v = verdict("close");
	result = real(fd);
	if (v == 3)
		die();
	if (v == 1) {
		errno = seen == second ? second_number : number;
		return -1;
	}
	return result;
}

#define WATCH_OPEN(symbol)                                                   \
	int symbol(const char *path, int flags, ...)                         \
	{                                                                    \
		static int (*real)(const char *, int, ...);                  \
		int v, result;                                               \
		va_list rest;                                                \
		mode_t mode;                                                 \
		va_start(rest, flags);                                       \
		mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
		va_end(rest);                                                \
		if (!real)                                                   \
			real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #symbol); \
		v = verdict("open");                                         \
		if (v == 1)                                                  \
			return -1;                                           \
		result = real(path, flags, mode);                            \
		if (v == 3)                                                  \
			die();                                               \
		return result;                                               \
	}

WATCH_OPEN(open)
WATCH_OPEN(open64)
