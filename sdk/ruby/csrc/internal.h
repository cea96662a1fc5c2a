/* The state that the parts of the C half share. */
#ifndef TUTTI_INTERNAL_H
#define TUTTI_INTERNAL_H

#include <ruby.h>
#include <ruby/encoding.h>
#include <ruby/thread.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include "tutti.h"

/* Names in the environment with a key that is made once. */
enum {
	KEY_REQUEST_METHOD, KEY_SCRIPT_NAME, KEY_PATH_INFO, KEY_REQUEST_URI, KEY_REQUEST_PATH, KEY_QUERY_STRING, KEY_SERVER_NAME,
	KEY_SERVER_PORT, KEY_SERVER_PROTOCOL, KEY_HTTP_VERSION, KEY_REMOTE_ADDR, KEY_REMOTE_PORT, KEY_REMOTE_USER, KEY_SERVER_SOFTWARE, KEY_CONTENT_TYPE,
	KEY_CONTENT_LENGTH, KEY_GATEWAY_INTERFACE, KEY_VERSION, KEY_URL_SCHEME, KEY_INPUT, KEY_ERRORS, KEY_MULTITHREAD, KEY_MULTIPROCESS,
	KEY_RUN_ONCE, KEY_RESPONSE_FINISHED, KEY_MAY_HIJACK, KEY_HIJACK, KEY_HIJACK_IO, KEY_PROTOCOL, KEY_EARLY_HINTS,
	KEY_COUNT
};

#define TUTTI_CHUNK 65536
#define TUTTI_NAME_MAX 46
#define TUTTI_NAMES 128

/* A field's name as a client spells it, and its key in the environment. */
typedef struct {
	VALUE key; /* nil with a length: not in the environment */
	unsigned char len;
	char name[TUTTI_NAME_MAX + 1];
} tutti_name;

/* A thread that serves. Lives as long as the process. */
typedef struct tutti_thread {
	struct tutti_thread *next;
	void *serving;
	pthread_t native;
	/* The request being served; NULL between requests and in a process that the application has forked. */
	const tutti_request *volatile request;
	uint64_t serial;
	bool is_started;
	bool is_ended;
	bool is_head;
	bool is_gone; /* a write has found that the client has gone: once the response has ended, there is no way to ask */
	bool is_away; /* a call has given the GVL away with `serving` in its hands */
	bool is_over; /* it takes no further request */
	VALUE errors;
	VALUE environment; /* of the request: its service keeps it alive */
	/* The head that is being put together, and its names and values: copies, since ruby may move its strings meanwhile (`GC.compact`). */
	tutti_field *fields;
	size_t field_count;
	size_t field_room;
	char *text;
	size_t text_len;
	size_t text_room;
} tutti_thread;

/* rack.input and the streams that are made of it. */
typedef struct {
	tutti_thread *thread;
	uint64_t serial;
	int64_t length; /* -1: not known */
	uint32_t body;
} tutti_handle;

/* All that is made once for all threads. */
typedef struct {
	VALUE module; /* Tutti */
	VALUE application;
	VALUE keys[KEY_COUNT];
	VALUE empty, get, post, head, http10, http11, http2, http, https, software, gateway, version, protocols;
	VALUE input_class; /* of bodies that are there, and of those that still come */
	VALUE stream_input_class;
	VALUE early_hints_class;
	VALUE threads;
	tutti_name names[TUTTI_NAMES];
	bool is_rack2;
	bool multithread;
	bool multiprocess;
} tutti_state;

/* serving.c */
extern tutti_state tutti;
/* All of this process, for a signal handler to read. */
extern tutti_thread *volatile tutti_first;
/* This is a process that the application has forked. */
extern volatile int tutti_is_forked;
/* Calls `work` without the GVL, with `thread->serving` in its hands. */
void tutti_away(tutti_thread *thread, void *(*work)(void *), void *argument);
/* Adds to the body. False: the client has gone. */
bool tutti_write(tutti_thread *thread, VALUE bytes);
void tutti_finish(tutti_thread *thread);

/* The bytes of a string, which must live, and stay as it is, as long as they are used. */
static inline tutti_bytes tutti_bytes_of(VALUE string)
{
	return (tutti_bytes) { RSTRING_PTR(string), (size_t) RSTRING_LEN(string) };
}

/* request.c */
void tutti_request_prepare(void);
VALUE tutti_environment(tutti_thread *thread);

/* response.c */
void tutti_respond(tutti_thread *thread, VALUE response);
void tutti_response_prepare(void);

/* handles.c */
void tutti_handles_define(void);
VALUE tutti_handle_new(tutti_thread *thread, VALUE class);
VALUE tutti_errors_new(void);
tutti_thread *tutti_serving(VALUE handle);
tutti_handle *tutti_handle_of(VALUE handle);

/* hijack.c */
void tutti_hijack_define(void);
/* The connection of the request as a socket: the request has ended for this thread. */
VALUE tutti_take_over(tutti_thread *thread);

/* streaming.c */
void tutti_streaming_define(void);
void tutti_stream_to(tutti_thread *thread, VALUE callable);

#endif
