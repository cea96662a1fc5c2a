/* The structures that cross between the C half of a language host and its Rust half: those of `sdk/seam/src/lib.rs`. */
#ifndef TUTTI_SEAM_H
#define TUTTI_SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* Bytes that Rust owns; valid until the request ends. */
typedef struct {
	const char *data;
	size_t len;
} tutti_bytes;

/* One header field. */
typedef struct {
	tutti_bytes name;
	tutti_bytes value;
} tutti_field;

enum { TUTTI_BODY_NONE = 0, TUTTI_BODY_INLINE = 1, TUTTI_BODY_SPOOL = 2, TUTTI_BODY_STREAM = 3 };

/* A request, as it came. All spans are valid until the exchange is finished. */
typedef struct {
	tutti_bytes method;
	tutti_bytes target;   /* as the client asked for it */
	tutti_bytes path;     /* that was routed, decoded */
	tutti_bytes encoded_path;
	tutti_bytes query;
	tutti_bytes protocol;
	tutti_bytes scheme;
	tutti_bytes remote_address;
	tutti_bytes server_name;
	tutti_bytes user;    /* that the server has authenticated; empty: none */
	uint16_t remote_port;
	uint16_t server_port;
	uint32_t body;       /* TUTTI_BODY_... */
	uint32_t is_websocket;
	int64_t content_length; /* -1: unknown */
	tutti_bytes inline_body;
	const tutti_field *fields;
	size_t field_count;
} tutti_request;

enum { TUTTI_LOG_ERROR = 0, TUTTI_LOG_WARN = 1, TUTTI_LOG_ALERT = 2 };

/* Rust's, for every host (`sdk/seam/src/functions.rs`). `serving` is what the host's own header says; without a request behind it they
 * do nothing. They never call back into the language. Those that write give -1 when the client has gone, else 0. */
int host_write(void *serving, const char *data, size_t len);
int host_flush(void *serving);
void host_finish(void *serving);
void host_abort(void *serving);
/* The page of an error, where no answer has been started, and its end. */
void host_answer_500(void *serving);
/* 0 at the end of the body, -1 when it cannot be read. */
ssize_t host_read(void *serving, uint64_t offset, char *buffer, size_t len);
int host_is_client_gone(void *serving);
void host_log(int level, const char *message, size_t len);

/* True if the bytes are `wanted`, which is in lower case, but for their case. */
static inline bool tutti_is(tutti_bytes bytes, const char *wanted)
{
	if (bytes.len != strlen(wanted)) {
		return false;
	}
	for (size_t i = 0; i < bytes.len; i++) {
		char c = bytes.data[i];
		if ((c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) != wanted[i]) {
			return false;
		}
	}
	return true;
}

/* True if a field has its own place in the variables of CGI, or none. */
static inline bool tutti_is_special(tutti_bytes name)
{
	switch (name.len) {
	case 5:
		/* HTTP_PROXY would be taken by libraries for the proxy of their own requests (CVE-2016-5385). */
		return tutti_is(name, "proxy");
	case 12:
		return tutti_is(name, "content-type");
	case 14:
		return tutti_is(name, "content-length");
	case 17:
		/* The body is handed over without its framing. */
		return tutti_is(name, "transfer-encoding");
	default:
		return false;
	}
}

#endif
