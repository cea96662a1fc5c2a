/* A module of NGINX Unit's SDK that shows its request, or misbehaves: the path says how. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <unit/unit-wasm.h>

/* Where an answer begins in the shared memory, behind the fields. */
#define ANSWER 16384

extern char **environ;

/* A copy of the request: the answer is written over it. */
static u8 *copy;
/* Requests that this instance has served, and what the server has called, in order. */
static unsigned served;
static char calls[4096];
/* The whole of a request that came in several parts. */
static u8 *whole;
static luw_ctx_t whole_context;
static bool has_ended;

static void note(const char *name)
{
    if (strlen(calls) + strlen(name) + 2 < sizeof(calls)) {
        strcat(calls, name);
        strcat(calls, " ");
    }
}

__luw_export_name("begin_module") void begin_module(void)
{
    note("module_init");
    copy = malloc(luw_mem_get_init_size());
}

__luw_export_name("end_module") void end_module(void)
{
    fprintf(stderr, "the module ends after %u requests\n", served);
    free(copy);
}

__luw_export_name("begin_request") void begin_request(void)
{
    note("request_init");
}

__luw_export_name("end_request") void end_request(void)
{
    note("request_end");
    free(whole);
    whole = NULL;
    has_ended = false;
}

__luw_export_name("end_response") void end_response(void)
{
    note("response_end");
}

/* Functions that are no good for what they are named for. */
__luw_export_name("no_memory") u32 no_memory(size_t size)
{
    (void) size;
    return 0;
}

__luw_export_name("little_memory") u32 little_memory(size_t size)
{
    (void) size;
    return (u32) __builtin_wasm_memory_size(0) * 65536 - 1000;
}

__luw_export_name("failing_start") void failing_start(void)
{
    fprintf(stderr, "this module cannot start\n");
    __builtin_trap();
}

static unsigned long number(const char *text)
{
    return strtoul(text, NULL, 10);
}

static void head(luw_ctx_t *context, const char *name, const char *value)
{
    luw_http_init_headers(context, 1, 0);
    luw_http_add_header(context, name, value);
    luw_http_send_headers(context);
}

/* Sends what has been written. */
static void answer(luw_ctx_t *context)
{
    head(context, "Content-Type", "text/plain");
    luw_http_send_response(context);
    luw_http_response_end();
}

static void text(luw_ctx_t *context, const char *text)
{
    luw_mem_writep(context, "%s", text);
    answer(context);
}

static bool show_field(luw_ctx_t *context, const char *name, const char *value, void *data)
{
    (void) data;
    luw_mem_writep(context, "field %s: %s\n", name, value);
    return true;
}

static void show(luw_ctx_t *context)
{
    luw_mem_writep(context, "method %s\n", luw_get_http_method(context));
    luw_mem_writep(context, "version %s\n", luw_get_http_version(context));
    luw_mem_writep(context, "path %s\n", luw_get_http_path(context));
    luw_mem_writep(context, "query %s\n", luw_get_http_query(context));
    luw_mem_writep(context, "remote %s\n", luw_get_http_remote(context));
    luw_mem_writep(context, "local %s port %s\n", luw_get_http_local_addr(context), luw_get_http_local_port(context));
    luw_mem_writep(context, "server %s\n", luw_get_http_server_name(context));
    luw_mem_writep(context, "tls %d\n", luw_http_is_tls(context));
    luw_mem_writep(context, "content %llu, %zu here, %llu so far: ", luw_get_http_content_len(context),
                   luw_get_http_content_sent(context), luw_get_http_total_content_sent(context));
    luw_mem_writep_data(context, luw_get_http_content(context), luw_get_http_content_sent(context));
    luw_mem_writep(context, "\n");
    luw_http_hdr_iter(context, show_field, NULL);
    answer(context);
}

/* Each part goes back as it comes: by way of a copy, for the answer is written over it. */
static void echo(u8 *addr)
{
    struct luw_req *request = (struct luw_req *) addr;
    u64 all = request->content_len, so_far = request->total_content_sent;
    size_t here = request->content_sent;
    luw_ctx_t context;
    char length[32];

    memcpy(copy, addr + request->content_off, here);
    luw_init_ctx(&context, addr, 0);
    if (so_far == here) {
        snprintf(length, sizeof(length), "%llu", all);
        head(&context, "Content-Length", length);
        luw_mem_reset(&context);
    }
    luw_mem_writep_data(&context, copy, here);
    luw_http_send_response(&context);
    if (so_far == all) {
        luw_http_response_end();
    }
}

/* Answers before it has seen the rest. */
static void answer_early(u8 *addr)
{
    luw_ctx_t context;

    if (!has_ended) {
        has_ended = true;
        luw_init_ctx(&context, addr, 0);
        luw_mem_writep(&context, "answered early");
        luw_http_send_response(&context);
        luw_http_response_end();
    }
}

/* The whole body goes back when it is here. */
static void upload(u8 *addr)
{
    size_t all, sent, now;

    if (whole == NULL) {
        luw_init_ctx(&whole_context, addr, 0);
        luw_set_req_buf(&whole_context, &whole, LUW_SRB_APPEND | LUW_SRB_ALLOC | LUW_SRB_FULL_SIZE);
    } else {
        luw_req_buf_append(&whole_context, addr);
    }
    all = luw_get_http_content_len(&whole_context);
    if (luw_get_http_total_content_sent(&whole_context) < all) {
        return;
    }
    head(&whole_context, "X-Whole", "true");
    for (sent = 0; sent < all; sent += now) {
        now = all - sent < 1000000 ? all - sent : 1000000;
        luw_mem_reset(&whole_context);
        luw_mem_writep_data(&whole_context, luw_get_http_content(&whole_context) + sent, now);
        luw_http_send_response(&whole_context);
    }
    luw_http_response_end();
}

static void read_file(luw_ctx_t *context, const char *path)
{
    char bytes[1000];
    size_t count;
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        return text(context, "refused");
    }
    count = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    luw_mem_writep_data(context, (u8 *) bytes, count);
    answer(context);
}

static void write_file(luw_ctx_t *context, const char *path)
{
    FILE *file = fopen(path, "w");

    if (file == NULL) {
        return text(context, "refused");
    }
    fputs("written by a module", file);
    fclose(file);
    text(context, "written");
}

static void show_environment(luw_ctx_t *context)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        luw_mem_writep(context, "%s\n", *variable);
    }
    answer(context);
}

static void print(luw_ctx_t *context)
{
    printf("to standard output\n");
    fflush(stdout);
    fprintf(stderr, "to standard error\n");
    text(context, "printed");
}

static void allocate(luw_ctx_t *context, size_t count)
{
    u8 *volatile bytes = malloc(count);

    if (bytes == NULL) {
        return text(context, "refused");
    }
    memset(bytes, 1, count);
    luw_mem_writep(context, "%zu bytes", count);
    free(bytes);
    answer(context);
}

static void pause_for(unsigned long milliseconds)
{
    struct timespec time = {milliseconds / 1000, (milliseconds % 1000) * 1000000};

    nanosleep(&time, NULL);
}

static void wait_for(luw_ctx_t *context, unsigned long milliseconds)
{
    pause_for(milliseconds);
    text(context, "waited");
}

__attribute__((noinline)) static void compute_for_ever(void)
{
    for (volatile unsigned x = 1;; x = x * 3 + 1) {
    }
}

__attribute__((noinline)) static void fail(void)
{
    __builtin_trap();
}

/* A table of fields in the shared memory: their number, and the first of them. */
static void send_table(u8 *addr, u32 count, u32 name, u32 name_length, u32 value, u32 value_length)
{
    u32 table[] = {count, name, name_length, value, value_length};

    memcpy(addr, table, sizeof(table));
    nxt_wasm_send_headers(0);
}

/* The values of two fields of the request, as the language contract has them. */
static char values_seen[1000], value_long[16384];

static bool collect(luw_ctx_t *context, const char *name, const char *value, void *data)
{
    (void) context;
    (void) data;
    if (!strcasecmp(name, "x-long")) {
        snprintf(value_long, sizeof(value_long), "%s", value);
    } else if (!strcasecmp(name, "x-seen")) {
        strcat(values_seen, values_seen[0] ? ", " : "");
        strcat(values_seen, value);
    }
    return true;
}

static void contract_head(luw_ctx_t *context)
{
    values_seen[0] = 0;
    luw_http_hdr_iter(context, collect, NULL);
    luw_mem_writep(context, "%s", values_seen);
    luw_http_set_response_status(201);
    luw_http_init_headers(context, 4, 0);
    luw_http_add_header(context, "Set-Cookie", "a=1");
    luw_http_add_header(context, "Set-Cookie", "b=2");
    luw_http_add_header(context, "X-Empty", "");
    luw_http_add_header(context, "X-Back", value_long);
    luw_http_send_headers(context);
    luw_http_send_response(context);
    luw_http_response_end();
}

/* A part, and another when there is the file `go`. */
static void slow(luw_ctx_t *context)
{
    char go[1000];
    FILE *file;

    luw_mem_writep(context, "first\n");
    luw_http_send_response(context);
    snprintf(go, sizeof(go), "%s/go", getenv("WORK"));
    while ((file = fopen(go, "r")) == NULL) {
        pause_for(5);
    }
    fclose(file);
    luw_mem_reset(context);
    luw_mem_writep(context, "second\n");
    luw_http_send_response(context);
    luw_http_response_end();
}

static void grow(luw_ctx_t *context)
{
    u8 *volatile bytes = malloc(200 << 20);

    memset(bytes, 1, 200 << 20);
    pause_for(500);
    free(bytes);
    text(context, "grown");
}

/* More than any client takes. */
static void send_for_ever(luw_ctx_t *context)
{
    u8 piece[16384];

    memset(piece, 'x', sizeof(piece));
    for (;;) {
        luw_mem_reset(context);
        luw_mem_writep_data(context, piece, sizeof(piece));
        luw_http_send_response(context);
    }
}

static void send_size(u8 *addr, u32 size)
{
    memcpy(addr, &size, sizeof(size));
    nxt_wasm_send_response(0);
}

static bool misbehave(luw_ctx_t *context, u8 *addr, const char *path, const char *argument)
{
    if (!strcmp(path, "/trap") || !strcmp(path, "/fails")) {
        fail();
    } else if (!strcmp(path, "/exit")) {
        exit(3);
    } else if (!strcmp(path, "/loop") || !strcmp(path, "/hangs")) {
        compute_for_ever();
    } else if (!strcmp(path, "/no-answer")) {
        /* Comes back without one. */
    } else if (!strcmp(path, "/endless")) {
        send_for_ever(context);
    } else if (!strcmp(path, "/half")) {
        luw_mem_writep(context, "half an answer");
        luw_http_send_response(context);
    } else if (!strcmp(path, "/half-and-trap")) {
        luw_mem_writep(context, "half an answer");
        luw_http_send_response(context);
        fail();
    } else if (!strcmp(path, "/short")) {
        luw_mem_writep(context, "short");
        head(context, "Content-Length", "10");
        luw_http_send_response(context);
        luw_http_response_end();
    } else if (!strcmp(path, "/header-at")) {
        nxt_wasm_send_headers(number(argument));
    } else if (!strcmp(path, "/answer-at")) {
        nxt_wasm_send_response(number(argument));
    } else if (!strcmp(path, "/many-fields")) {
        send_table(addr, number(argument), 0, 0, 0, 0);
    } else if (!strcmp(path, "/name-at")) {
        send_table(addr, 1, number(argument), 10, 0, 0);
    } else if (!strcmp(path, "/value-of")) {
        send_table(addr, 1, 1000, 1, 1000, number(argument));
    } else if (!strcmp(path, "/part-of")) {
        send_size(addr, number(argument));
    } else if (!strcmp(path, "/bad-field")) {
        head(context, "X-A", "b\r\nX-Evil: 1");
    } else if (!strcmp(path, "/two-headers")) {
        head(context, "X-One", "1");
        head(context, "X-Two", "2");
    } else if (!strcmp(path, "/after-the-end")) {
        text(context, "whole");
        luw_http_send_response(context);
    } else if (!strcmp(path, "/late-status")) {
        head(context, "X-One", "1");
        luw_http_set_response_status(404);
        luw_http_response_end();
    } else {
        return false;
    }
    return true;
}

static void serve(luw_ctx_t *context, const char *path, const char *argument)
{
    if (!strcmp(path, "/request")) {
        show(context);
    } else if (!strcmp(path, "/served")) {
        luw_mem_writep(context, "%u", served);
        answer(context);
    } else if (!strcmp(path, "/head")) {
        contract_head(context);
    } else if (!strcmp(path, "/slow")) {
        slow(context);
    } else if (!strcmp(path, "/grows")) {
        grow(context);
    } else if (!strcmp(path, "/calls")) {
        text(context, calls);
        calls[0] = 0;
    } else if (!strcmp(path, "/status")) {
        luw_http_set_response_status(number(argument));
        text(context, "told");
    } else if (!strcmp(path, "/plain")) {
        luw_http_response_end();
    } else if (!strcmp(path, "/fields")) {
        luw_http_init_headers(context, 3, 0);
        luw_http_add_header(context, "X-One", "1");
        luw_http_add_header(context, "Set-Cookie", "a=1");
        luw_http_add_header(context, "Set-Cookie", "b=2");
        luw_http_send_headers(context);
        luw_http_response_end();
    } else if (!strcmp(path, "/print")) {
        print(context);
    } else if (!strcmp(path, "/environment")) {
        show_environment(context);
    } else if (!strcmp(path, "/read")) {
        read_file(context, argument);
    } else if (!strcmp(path, "/write")) {
        write_file(context, argument);
    } else if (!strcmp(path, "/memory")) {
        allocate(context, number(argument));
    } else if (!strcmp(path, "/wait")) {
        wait_for(context, number(argument));
    } else {
        text(context, "Hello from a module\n");
    }
}

__luw_export_name("handle") int handle(u8 *addr)
{
    struct luw_req *request = (struct luw_req *) addr;
    luw_ctx_t context;
    char path[1000];
    char *argument;

    note("request");
    if (request->total_content_sent == request->content_sent) {
        served++;
    }
    snprintf(path, sizeof(path), "%s", (char *) addr + request->path_off);
    argument = strchr(path, '?');
    if (argument != NULL) {
        *argument++ = 0;
    }
    argument = argument != NULL ? argument : "";
    if (!strcmp(path, "/echo") || !strcmp(path, "/body")) {
        echo(addr);
    } else if (!strcmp(path, "/upload")) {
        upload(addr);
    } else if (!strcmp(path, "/early")) {
        answer_early(addr);
    } else {
        luw_init_ctx(&context, addr, ANSWER);
        luw_set_req_buf(&context, &copy, LUW_SRB_NONE);
        if (!misbehave(&context, addr, path, argument)) {
            serve(&context, path, argument);
        }
    }
    return 0;
}

#ifdef STRANGER
/* A function that no server has. */
__attribute__((import_module("env"), import_name("a_function_of_another_server"))) void stranger(void);

__luw_export_name("call_a_stranger") void call_a_stranger(void)
{
    stranger();
}
#endif
