/* Options of the sanitizers, linked into what `make test-sanitizers` builds: hosts are started without an environment.
 * PHP and Perl end without freeing all, on purpose. Their signal handlers run on stacks of their own. */

#define _GNU_SOURCE
#include <dlfcn.h>

/* PHP loads its extensions with RTLD_DEEPBIND, which AddressSanitizer refuses. */
void *dlopen(const char *file, int flags)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(file, flags & ~RTLD_DEEPBIND);
}

const char *__asan_default_options(void)
{
    return "detect_leaks=0:use_sigaltstack=0:handle_segv=0:handle_abort=0:allow_user_segv_handler=1:exitcode=99";
}

const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1";
}
