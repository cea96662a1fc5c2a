/* The seam between the C half of the Ruby host (what only C can do: ruby's API, where exceptions are longjmps) and the Rust half.
 *
 * Rules, on which the soundness of the Rust half rests:
 *  - `host_*` functions are Rust's. They never call into ruby, so no longjmp ever crosses a Rust frame.
 *  - `tutti_ruby_*` functions are C's. Those that run Ruby code catch every jump (raise, throw, exit, Thread#kill) before they return.
 *  - The serving object of a thread is used by one thread at a time: by the thread with the GVL, or by the one call that has given it away
 *    (`tutti_away`), which the others wait for.
 */
#ifndef TUTTI_H
#define TUTTI_H

#include <sys/types.h>
#include "tutti_seam.h"

/* The next thing for a thread to do. */
enum { TUTTI_REQUEST = 0, TUTTI_LEAVE = 1 };

typedef struct {
	const char *script;
	const char *hooks; /* NULL: none */
	const char *prelude; /* the Ruby part of the host */
	size_t prelude_len;
	int multithread;
	int multiprocess;
	const char *hidden; /* a variable that is taken from the application's environment once ruby has read it; NULL: none */
} tutti_options;

/* C, called by Rust. Those that give a text put a string from malloc() in `message`, or NULL. They return 0 when all is well. */
int tutti_ruby_start(const tutti_options *options, char **message);
int tutti_ruby_load(const tutti_options *options, char **message);
void tutti_ruby_settle(void);
int tutti_ruby_fork(void);
void tutti_ruby_enter(void);
int tutti_ruby_boot(char **message);
int tutti_ruby_start_thread(void *place, char **message);
void tutti_ruby_join(void);
void tutti_ruby_catch_where(int signal);
void tutti_ruby_end(void);

/* Rust, called by C. `serving` is a thread's; its request is the last that `host_next` has found. */
void *host_begin(void *place);
void host_forget(void *place);
int host_next(void *serving, const tutti_request **request);
void host_done(void *serving, int leaves);
void host_end(void *serving);
void host_stop(void);
/* NULL, or why the head cannot be sent: a string that lives until the next call. */
const char *host_start(void *serving, unsigned status, const tutti_field *fields, size_t count);
size_t host_room(void *serving);
/* True if the application may take over another connection. */
int host_may_take_over(void *serving);
/* The application's end of the connection; the request has ended for this thread, also when that failed: -1. */
int host_take_over(void *serving);
/* True while any connection that was taken over has not ended. */
int host_has_connections(void);
int host_open(void *serving, const char *path, int64_t *size);
int host_send(void *serving);
void host_close(void *serving);

#endif
