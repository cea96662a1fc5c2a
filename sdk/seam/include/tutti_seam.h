/* The structures that cross between the C half of a language host and its Rust half: those of `sdk/seam/src/lib.rs`. */
#ifndef TUTTI_SEAM_H
#define TUTTI_SEAM_H

#include <stddef.h>
#include <stdint.h>

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
	tutti_bytes target;   /* as sent */
	tutti_bytes path;     /* PATH_INFO */
	tutti_bytes query;
	tutti_bytes protocol;
	tutti_bytes scheme;
	tutti_bytes remote_address;
	tutti_bytes server_name;
	uint16_t remote_port;
	uint16_t server_port;
	uint32_t body;       /* TUTTI_BODY_... */
	int64_t content_length; /* -1: unknown */
	tutti_bytes inline_body;
	const tutti_field *fields;
	size_t field_count;
} tutti_request;

#endif
