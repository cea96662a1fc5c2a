/* The seam between the C half of the PHP host (what only C can do: Zend's macros, setjmp) and the Rust half.
 *
 * Rules, on which the soundness of the Rust half rests:
 *  - `host_*` functions are Rust's. They never call back into PHP, so no longjmp ever crosses a Rust frame.
 *  - `tutti_php_*` functions are C's. Those that run PHP code catch every bailout before they return.
 *  - Everything is called from one thread of the process.
 */
#ifndef TUTTI_H
#define TUTTI_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that Rust owns; valid until the request ends. */
typedef struct {
	const char *data;
	size_t len;
} tutti_bytes;

/* One $_SERVER entry. `key` and `constant`, when not null, are permanent strings made by tutti_php_permanent(). */
typedef struct {
	tutti_bytes name;
	tutti_bytes value;
	void *key;
	void *constant;
} tutti_variable;

/* One response header field. */
typedef struct {
	tutti_bytes name;
	tutti_bytes value;
} tutti_field;

/* A script file and the folder it runs in. */
typedef struct {
	const char *file; /* ends with a NUL byte */
	size_t len;
	const char *directory; /* too */
	uint64_t directory_number; /* the same for the same path, never 0, never used for another */
	uint64_t directory_look; /* the same until the path is looked at again: it may lead to another folder from then on */
	size_t root_len; /* the part of it that is the root of the target */
} tutti_script;

/* A request as Rust knows it before PHP starts it. All strings end with a NUL byte; null means absent. */
typedef struct {
	const char *method;
	const char *target;
	const char *query;
	tutti_script script;
	const char *content_type;
	const char *cookie;
	const char *authorization;
	int64_t content_length;
	int protocol; /* 1000 or 1001, as PHP counts */
	int has_body;
	double time;  /* seconds since the epoch */
} tutti_request;

enum { TUTTI_SERVED = 0, TUTTI_RECYCLE = 1, TUTTI_FAILED = 2 };

/* The end of a life of a resident script. */
enum {
	TUTTI_LIFE_OVER = 0,    /* it left, by itself or because the worker has to */
	TUTTI_LIFE_REBOOT = 1,  /* it wants to boot anew */
	TUTTI_LIFE_FATAL = 2,   /* by a fatal error within a request */
	TUTTI_LIFE_NO_LOOP = 3, /* without having called tutti_handle_request() */
	TUTTI_LIFE_BROKEN = 4,  /* PHP itself failed */
};

/* C, called by Rust. */
int tutti_php_startup(const char *ini_file, const char *ini_entries, int is_resident, const char *resident_folder);
void tutti_php_shutdown(void);
int tutti_php_lock_directive(const char *name, size_t len);
int tutti_php_has_directive(const char *name, size_t len);
int64_t tutti_php_directive(const char *name, size_t len);
int tutti_php_opcache_enabled(void);
void *tutti_php_permanent(const char *data, size_t len);
void tutti_php_worker_started(uint32_t worker);
int tutti_php_preload(const char *path);
int tutti_php_serve(const tutti_request *request);
int tutti_php_resident(const tutti_script *script);

/* Rust, called by C. */
size_t host_write(const char *data, size_t len);
int host_flush(void);
void host_start(unsigned status, const tutti_field *fields, size_t count);
void host_finish(int script_goes_on);
size_t host_read(char *buffer, size_t len);
int host_is_client_gone(void);
size_t host_variables(const tutti_variable **variables);
size_t host_request_headers(const tutti_field **fields);
int host_getenv(const char *name, size_t len, tutti_bytes *value);
void host_log(const char *message, size_t len, int severity);
/* For resident scripts: waits for a request (null: leave); keeps it for after the next boot; it is over; why the boot failed ("": the script
 * ended); what was written outside of a request. */
const tutti_request *host_next(void);
void host_keep(void);
void host_done(int recycle);
void host_boot_failed(const char *message, size_t len);
void host_output(const char *data, size_t len);

#endif
