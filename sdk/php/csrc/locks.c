/* opcache's note that a process uses its memory, without system calls.
 *
 * Before its first script of a request each process puts a shared lock on byte 1 of opcache's lock file, and at the end takes all its locks off;
 * a process that wants to restart the cache asks with F_GETLK whether anyone holds byte 1. Two fcntl() calls a request: a fifth of what a
 * small script costs, and all processes meet at one list in the kernel. Here byte 1 is a table in shared memory with a line for each worker;
 * the answer to F_GETLK looks at the table, and then at the kernel for processes that are not in it. The exclusive lock on byte 0 stays where it is.
 *
 * PHP loads extensions with RTLD_DEEPBIND, so a function of ours would not be found by name: the one place in opcache.so that holds the
 * address of fcntl() is changed instead, after the loader has filled it and before the first fork. Where it is not found, nothing changes.
 * A worker that dies leaves its line: its process number tells that it is gone.
 */

#define _GNU_SOURCE
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Lines: as many as the transport has workers at most (wire::Layout). */
#define LINES 4096
#define LINE_SIZE 128

typedef struct {
	_Atomic pid_t user;
	char rest[LINE_SIZE - sizeof(pid_t)];
} line;

static line *table;
static line *own;
/* getpid() is a system call. */
static pid_t own_number;
static int lock_file = -1;
/* opcache holds byte 0, its exclusive lock, which stays in the kernel. */
static bool holds_exclusive;

static void forget_line(void)
{
	/* A child that user code forked is not the worker. */
	own = NULL;
}

/* Is this opcache's lock file? memfd_create("opcache_lock"), or an unlinked temporary file. */
static bool is_lock_file(int fd)
{
	char link[32], path[256];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	if (len <= 0) {
		return false;
	}
	path[len] = 0;
	return strstr(path, "opcache_lock") || strstr(path, "/.ZendSem.");
}

/* The place in opcache.so that holds the address of fcntl(), as dl_iterate_phdr finds it. */
static int find_place(struct dl_phdr_info *object, size_t size, void *result)
{
	static const char name[] = "/opcache.so";
	size_t len = strlen(object->dlpi_name);
	const ElfW(Dyn) *dynamic = NULL;

	if (len < sizeof(name) - 1 || strcmp(object->dlpi_name + len - (sizeof(name) - 1), name) != 0) {
		return 0;
	}
	for (int i = 0; i < object->dlpi_phnum; i++) {
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC) {
			dynamic = (const void *) (object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
		}
	}
	const ElfW(Rela) *entries = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	size_t count = 0;
	bool has_addends = false;
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		switch (dynamic->d_tag) {
			case DT_JMPREL: entries = (const void *) dynamic->d_un.d_ptr; break;
			case DT_PLTRELSZ: count = dynamic->d_un.d_val / sizeof(*entries); break;
			case DT_PLTREL: has_addends = dynamic->d_un.d_val == DT_RELA; break;
			case DT_SYMTAB: symbols = (const void *) dynamic->d_un.d_ptr; break;
			case DT_STRTAB: names = (const void *) dynamic->d_un.d_ptr; break;
		}
	}
	if (!entries || !symbols || !names || !has_addends || sizeof(void *) != 8) {
		return 1;
	}
	for (size_t i = 0; i < count; i++) {
		const char *called = names + symbols[ELF64_R_SYM(entries[i].r_info)].st_name;
		if (strcmp(called, "fcntl") == 0 || strcmp(called, "fcntl64") == 0) {
			*(void ***) result = (void **) (object->dlpi_addr + entries[i].r_offset);
		}
	}
	return 1;
}

static int opcache_fcntl(int fd, int command, ...);

/* Lets opcache call opcache_fcntl(). The loader has made the page read-only: it is so again afterwards. */
static bool take_over(void)
{
	void **place = NULL;
	dl_iterate_phdr(find_place, &place);
	if (!place || (*place != (void *) fcntl && *place != (void *) fcntl64)) {
		return false;
	}
	uintptr_t size = (uintptr_t) sysconf(_SC_PAGESIZE);
	void *page = (void *) ((uintptr_t) place & ~(size - 1));
	if (mprotect(page, size, PROT_READ | PROT_WRITE) != 0) {
		return false;
	}
	*place = (void *) opcache_fcntl;
	return mprotect(page, size, PROT_READ) == 0;
}

/* In the prototype, once, after PHP has started: opcache opens its lock file then, among the first descriptors. */
void tutti_locks_startup(void)
{
	for (int fd = 3; fd < 256 && lock_file < 0; fd++) {
		if (is_lock_file(fd)) {
			lock_file = fd;
		}
	}
	if (lock_file < 0) {
		return;
	}
	void *memory = mmap(NULL, sizeof(line) * LINES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		return;
	}
	pthread_atfork(NULL, NULL, forget_line);
	if (take_over()) {
		table = memory;
	} else {
		munmap(memory, sizeof(line) * LINES);
	}
}

void tutti_locks_worker(uint32_t worker)
{
	if (table && worker < LINES) {
		own = &table[worker];
		own_number = getpid();
		atomic_store(&own->user, 0);
	}
}

/* The process that uses the cache, other than this one; 0 for none. */
static pid_t other_user(void)
{
	for (size_t i = 0; i < LINES; i++) {
		pid_t user = &table[i] == own ? 0 : atomic_load(&table[i].user);
		if (user != 0) {
			if (kill(user, 0) == 0 || errno == EPERM) {
				return user;
			}
			atomic_compare_exchange_strong(&table[i].user, &user, 0);
		}
	}
	return 0;
}

/* A call on opcache's lock file; true when it is answered here. */
static bool answer(int command, struct flock *lock, int *result)
{
	if (command == F_SETLKW && lock->l_start == 0 && lock->l_type == F_WRLCK) {
		holds_exclusive = true;
		return false;
	}
	if (command == F_SETLK && lock->l_start == 1 && lock->l_type == F_RDLCK) {
		atomic_store(&own->user, own_number);
		*result = 0;
		return true;
	}
	if (command == F_SETLK && lock->l_type == F_UNLCK) {
		bool all = lock->l_start == 0 && lock->l_len == 0;
		if (all || lock->l_start == 1) {
			atomic_store(&own->user, 0);
			*result = 0;
			if (!all || !holds_exclusive) {
				return true;
			}
		}
		holds_exclusive = false;
		return false;
	}
	if (command == F_GETLK && lock->l_start == 1) {
		pid_t user = other_user();
		if (user != 0) {
			lock->l_type = F_RDLCK;
			lock->l_pid = user;
			*result = 0;
			return true;
		}
	}
	return false;
}

static int opcache_fcntl(int fd, int command, ...)
{
	va_list arguments;
	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	int result;

	if (fd == lock_file && own && argument && (command == F_SETLK || command == F_SETLKW || command == F_GETLK)
	    && answer(command, argument, &result)) {
		return result;
	}
	return fcntl(fd, command, argument);
}
