/* The state that the parts of the C half share: an interpreter with all that is prepared once for its requests. */
#ifndef TUTTI_INTERNAL_H
#define TUTTI_INTERNAL_H

#define PERL_NO_GET_CONTEXT
#include <EXTERN.h>
#include <perl.h>
#include <XSUB.h>
#include <perliol.h>
#include <stdatomic.h>
#include "tutti.h"

#if PERL_VERSION_LT(5, 30, 0)
# error "perl older than 5.30 is not supported"
#endif

/* Names in the environ with a key that is made once. */
enum {
	KEY_REQUEST_METHOD, KEY_SCRIPT_NAME, KEY_PATH_INFO, KEY_REQUEST_URI, KEY_QUERY_STRING, KEY_SERVER_NAME,
	KEY_SERVER_PORT, KEY_SERVER_PROTOCOL, KEY_REMOTE_ADDR, KEY_REMOTE_PORT, KEY_REMOTE_USER, KEY_SERVER_SOFTWARE, KEY_CONTENT_TYPE, KEY_CONTENT_LENGTH,
	KEY_VERSION, KEY_URL_SCHEME, KEY_INPUT, KEY_ERRORS, KEY_MULTITHREAD, KEY_MULTIPROCESS, KEY_RUN_ONCE,
	KEY_NONBLOCKING, KEY_STREAMING, KEY_INPUT_BUFFERED, KEY_HARAKIRI, KEY_HARAKIRI_COMMIT, KEY_CLEANUP,
	KEY_CLEANUP_HANDLERS, KEY_COUNT
};

/* Values that most requests have. */
enum { VALUE_EMPTY, VALUE_GET, VALUE_POST, VALUE_HEAD, VALUE_HTTP10, VALUE_HTTP11, VALUE_HTTP, VALUE_HTTPS, VALUE_SOFTWARE, VALUE_COUNT };

/* A field's name as a client spells it, and its key in the environ. */
#define TUTTI_NAME_MAX 46
typedef struct {
	SV *key; /* NULL with a length: not in the environ */
	U8 len;
	char name[TUTTI_NAME_MAX + 1];
} tutti_name;
#define TUTTI_NAMES 128

#define TUTTI_CHUNK 65536

struct tutti_perl {
	PerlInterpreter *interpreter;
	struct tutti_perl *next; /* of this process */
	int multithread;
	int multiprocess;

	/* The request being served; `exchange` is NULL between requests and in a forked child. */
	void *exchange;
	atomic_bool is_asked; /* where it is */
	const tutti_request *request;
	UV serial;
	bool is_started;
	bool is_ended;
	bool is_head;
	bool is_done; /* nothing has died */

	/* Made once. */
	CV *handler;
	SV *application;
	HV *writers;
	AV *version;
	SV *keys[KEY_COUNT];
	SV *values[VALUE_COUNT];
	tutti_name names[TUTTI_NAMES];

	/* Kept from request to request, unless the application keeps them. */
	HV *environ;
	GV *input;
	PerlIO *input_file;
	GV *errors;
	PerlIO *errors_file;
	SV *message; /* psgi.errors: text without the end of its line */
	AV *cleanup;

	tutti_field *fields;
	size_t field_room;
	tutti_bytes *spans;
	size_t span_room;
	char *chunk;
};

/* state.c */
/* The interpreter of this thread; NULL in threads that the application has made. */
extern __thread tutti_perl *tutti_current;
/* All of this process, for the thread that hears questions to read. */
extern tutti_perl *volatile tutti_first;
/* This is a process that the application has forked. */
extern volatile int tutti_is_forked;

/* where.c */
void tutti_where_prepare(tutti_perl *perl);

/* handles.c */
void tutti_handles_define(pTHX);
SV *tutti_input(pTHX_ tutti_perl *perl);
SV *tutti_errors(pTHX_ tutti_perl *perl);
void tutti_errors_flush(pTHX_ tutti_perl *perl);

/* request.c */
void tutti_request_prepare(pTHX_ tutti_perl *perl);
SV *tutti_environ(pTHX_ tutti_perl *perl);
void tutti_environ_release(pTHX_ tutti_perl *perl);

/* response.c: `response` is an array */
void tutti_respond(pTHX_ tutti_perl *perl, SV *response);
void tutti_finish(tutti_perl *perl);
void tutti_start(pTHX_ tutti_perl *perl, AV *response, SSize_t length);

/* streaming.c */
void tutti_streaming_define(pTHX_ tutti_perl *perl);
/* Sends what the application has returned: a response, or code that gives one later. */
void tutti_send_answer(pTHX_ tutti_perl *perl, SV *response);
extern const char tutti_gone[];

#endif
