/* The seam between the C half of the Perl host (what only C can do: perl's macros, setjmp) and the Rust half.
 *
 * Rules, on which the soundness of the Rust half rests:
 *  - `host_*` functions are Rust's. They never call back into perl, so no longjmp ever crosses a Rust frame.
 *  - `tutti_perl_*` functions are C's. Those that run Perl code catch every jump (die, exit) before they return.
 *  - An interpreter is used by one thread at a time.
 */
#ifndef TUTTI_H
#define TUTTI_H

#include <sys/types.h>
#include "tutti_seam.h"

/* An interpreter with its application. */
typedef struct tutti_perl tutti_perl;

/* The outcome of a request. */
enum { TUTTI_SERVED = 0, TUTTI_RECYCLE = 1 };

/* C, called by Rust. Those that give a text put a string from malloc() in `message`, or NULL. */
tutti_perl *tutti_perl_new(int multithread, int multiprocess, char **message);
int tutti_perl_load(tutti_perl *perl, const char *script, char **message);
tutti_perl *tutti_perl_clone(tutti_perl *perl);
void tutti_perl_enter(tutti_perl *perl);
void tutti_perl_worker_started(tutti_perl *perl);
int tutti_perl_serve(tutti_perl *perl, const tutti_request *request, void *exchange);
void tutti_perl_hear_questions(int signal);
void tutti_perl_end(tutti_perl *perl);

/* Rust, called by C. */
int host_start(void *exchange, unsigned status, const tutti_field *fields, size_t count);

#endif
