/* Calls every function that samples/hello.c and samples/loop.c do not, and all with what makes no sense. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti_worker.h"

static char report[4096];

static void check(int is_true, const char *what) {
    if (!is_true && strlen(report) + strlen(what) + 2 < sizeof report) {
        strcat(report, what);
        strcat(report, "\n");
    }
}
#define CHECK(condition) check((condition), #condition)

static int equals(struct tutti_bytes bytes, const char *text) {
    return bytes.length == strlen(text) && memcmp(bytes.data, text, bytes.length) == 0 &&
           bytes.data[bytes.length] == 0;
}

static struct tutti_bytes text(const char *string) {
    struct tutti_bytes bytes = {(const uint8_t *)string, strlen(string)};
    return bytes;
}

/* Fields that no answer may have: the function that should send one refuses it, and sends nothing of it. */
static const struct tutti_field bad[] = {
    {{(const uint8_t *)"a b", 3}, {(const uint8_t *)"c", 1}},
    {{(const uint8_t *)"a:", 2}, {(const uint8_t *)"c", 1}},
    {{(const uint8_t *)"a\0", 2}, {(const uint8_t *)"c", 1}},
    {{(const uint8_t *)"", 0}, {(const uint8_t *)"c", 1}},
    {{(const uint8_t *)"a", 1}, {(const uint8_t *)"b\rc", 3}},
    {{(const uint8_t *)"a", 1}, {(const uint8_t *)"b\nX-Evil: 1", 11}},
    {{(const uint8_t *)"a", 1}, {(const uint8_t *)"b\0c", 3}},
    {{NULL, 1}, {(const uint8_t *)"c", 1}},
    {{(const uint8_t *)"a", 1}, {NULL, 1}},
};
enum { BAD = sizeof bad / sizeof *bad };

/* More than answers before a head, head and trailers have room for together. */
static uint8_t large[70000];

static void refuses_nonsense(void) {
    struct tutti_field field;
    struct tutti_bytes value;
    struct tutti_message *message;
    uint8_t byte = 0;
    tutti_process_close(NULL);
    tutti_process_ready(NULL);
    tutti_process_fail(NULL, NULL, NULL);
    tutti_worker_ready(NULL);
    tutti_worker_free(NULL);
    tutti_worker_clear_event(NULL);
    tutti_worker_woken(NULL);
    tutti_worker_attention(NULL, NULL, NULL);
    tutti_response_flush(NULL);
    tutti_exchange_finish(NULL);
    tutti_exchange_abort(NULL);
    tutti_message_free(NULL);
    CHECK(tutti_process_threads(NULL) == 1);
    CHECK(tutti_process_concurrency(NULL) == 0);
    CHECK(tutti_worker_take(NULL) == NULL);
    CHECK(tutti_worker_next(NULL) == NULL);
    CHECK(tutti_worker_try_next(NULL) == NULL);
    CHECK(tutti_worker_must_stop(NULL));
    CHECK(!tutti_worker_prepare_sleep(NULL));
    CHECK(tutti_worker_event_fd(NULL) == -1);
    CHECK(tutti_worker_enter_loop(NULL, 1) == TUTTI_INVALID);
    CHECK(tutti_exchange_is_gone(NULL));
    CHECK(tutti_exchange_slot(NULL) == UINT32_MAX);
    CHECK(equals(tutti_request_text(NULL, TUTTI_PATH), ""));
    CHECK(tutti_request_number(NULL, TUTTI_TLS) == -1);
    CHECK(!tutti_request_field(NULL, 0, &field));
    CHECK(!tutti_request_find(NULL, &byte, 1, &value));
    CHECK(tutti_body_read(NULL, &byte, 1, true) == TUTTI_INVALID);
    CHECK(tutti_response_start(NULL, 200, NULL, 0) == TUTTI_INVALID);
    CHECK(tutti_response_interim(NULL, 103, NULL, 0) == TUTTI_INVALID);
    CHECK(tutti_response_trailers(NULL, NULL, 0) == TUTTI_INVALID);
    CHECK(tutti_response_write(NULL, &byte, 1, true) == TUTTI_INVALID);
    CHECK(tutti_message_next(NULL, true, &message) == TUTTI_INVALID);
    CHECK(tutti_message_opcode(NULL) == 0);
    CHECK(equals(tutti_message_bytes(NULL), ""));
    CHECK(tutti_message_send(NULL, TUTTI_MESSAGE_TEXT, &byte, 1, true) == TUTTI_INVALID);
}

/* Interim responses. Whatever is refused leaves everything as it was. */
static void hint(struct tutti_exchange *exchange) {
    struct tutti_field link = {text("Link"), text("</a.css>")}, much = {text("X"), {large, sizeof large}};
    int index;
    CHECK(tutti_response_interim(exchange, 103, &link, 1) == TUTTI_OK);
    CHECK(tutti_response_interim(exchange, 100, NULL, 0) == TUTTI_INVALID);
    CHECK(tutti_response_interim(exchange, 101, NULL, 0) == TUTTI_INVALID);
    CHECK(tutti_response_interim(exchange, 200, NULL, 0) == TUTTI_INVALID);
    CHECK(tutti_response_interim(exchange, 103, NULL, 1) == TUTTI_INVALID);
    CHECK(tutti_response_interim(exchange, 103, &link, SIZE_MAX) == TUTTI_INVALID);
    for (index = 0; index < BAD; index++)
        CHECK(tutti_response_interim(exchange, 103, &bad[index], 1) == TUTTI_INVALID);
    CHECK(tutti_response_interim(exchange, 103, &much, 1) == TUTTI_TOO_LARGE);
    CHECK(tutti_response_interim(exchange, 102, NULL, 0) == TUTTI_OK);
    CHECK(tutti_response_trailers(exchange, &link, 1) == TUTTI_INVALID);
}

/* Trailer fields. */
static void trail(struct tutti_exchange *exchange) {
    struct tutti_field first = {text("X-First"), text("1")}, much = {text("X"), {large, sizeof large}};
    struct tutti_field both[] = {{text("X-Sum"), text("5")}, {text("X-Empty"), {NULL, 0}}};
    int index;
    CHECK(tutti_response_interim(exchange, 103, NULL, 0) == TUTTI_INVALID);
    CHECK(tutti_response_trailers(exchange, &first, 1) == TUTTI_OK);
    CHECK(tutti_response_trailers(exchange, both, 2) == TUTTI_OK);
    CHECK(tutti_response_trailers(exchange, NULL, 1) == TUTTI_INVALID);
    for (index = 0; index < BAD; index++)
        CHECK(tutti_response_trailers(exchange, &bad[index], 1) == TUTTI_INVALID);
    CHECK(tutti_response_trailers(exchange, &much, 1) == TUTTI_TOO_LARGE);
}

static void serve(struct tutti_exchange *exchange) {
    struct tutti_bytes bytes;
    struct tutti_field field;
    uint8_t body[16];
    const uint8_t name[] = "X-NAME";
    struct tutti_field much = {text("X"), {large, sizeof large}};
    int index;
    CHECK(equals(tutti_request_text(exchange, TUTTI_METHOD), "PUT"));
    CHECK(equals(tutti_request_text(exchange, TUTTI_PATH), "/a b"));
    CHECK(equals(tutti_request_text(exchange, TUTTI_QUERY), "c=d"));
    CHECK(equals(tutti_request_text(exchange, TUTTI_TARGET), ""));
    CHECK(equals(tutti_request_text(exchange, TUTTI_USER), "anna"));
    CHECK(equals(tutti_request_text(exchange, 99), ""));
    CHECK(tutti_request_number(exchange, TUTTI_CONTENT_LENGTH) == 4);
    CHECK(tutti_request_number(exchange, TUTTI_REMOTE_PORT) == 50000);
    CHECK(tutti_request_number(exchange, TUTTI_FIELDS) == 1);
    CHECK(tutti_request_number(exchange, 99) == -1);
    CHECK(tutti_request_field(exchange, 0, &field));
    CHECK(equals(field.name, "X-Name") && equals(field.value, "value"));
    CHECK(!tutti_request_field(exchange, 1, &field));
    CHECK(!tutti_request_field(exchange, 0, NULL));
    CHECK(tutti_request_find(exchange, name, 6, &bytes) && equals(bytes, "value"));
    CHECK(!tutti_request_find(exchange, name, 5, &bytes));
    CHECK(!tutti_request_find(exchange, NULL, 5, &bytes));
    CHECK(tutti_body_read(exchange, NULL, 5, true) == TUTTI_INVALID);
    CHECK(tutti_body_read(exchange, body, sizeof body, true) == 4);
    CHECK(memcmp(body, "body", 4) == 0);
    CHECK(tutti_body_read(exchange, body, sizeof body, false) == 0);
    CHECK(!tutti_exchange_is_gone(exchange));
    hint(exchange);
    CHECK(tutti_response_start(exchange, 99, NULL, 0) == TUTTI_INVALID);
    CHECK(tutti_response_start(exchange, 101, NULL, 0) == TUTTI_INVALID);
    for (index = 0; index < BAD; index++)
        CHECK(tutti_response_start(exchange, 200, &bad[index], 1) == TUTTI_INVALID);
    CHECK(tutti_response_start(exchange, 200, NULL, 1) == TUTTI_INVALID);
    CHECK(tutti_response_start(exchange, 200, &much, 1) == TUTTI_TOO_LARGE);
    CHECK(tutti_response_start(exchange, 201, NULL, 0) == TUTTI_OK);
    CHECK(tutti_response_start(exchange, 200, NULL, 0) == TUTTI_INVALID);
    trail(exchange);
    CHECK(tutti_message_send(exchange, 7, body, 1, true) == TUTTI_INVALID);
    CHECK(tutti_message_send(exchange, TUTTI_MESSAGE_PING, (const uint8_t *)report, 126, true) ==
          TUTTI_INVALID);
    CHECK(tutti_response_write(exchange, NULL, 1, true) == TUTTI_INVALID);
    if (report[0] == 0)
        strcpy(report, "all is well\n");
    tutti_response_write(exchange, (const uint8_t *)report, strlen(report), true);
    tutti_exchange_finish(exchange);
}

int main(void) {
    struct tutti_process *process = tutti_process_open(NULL);
    struct tutti_worker *worker;
    struct tutti_exchange *exchange;
    memset(large, 'x', sizeof large);
    refuses_nonsense();
    CHECK(process != NULL);
    CHECK(tutti_process_open(NULL) == NULL);
    CHECK(tutti_process_threads(process) == 1);
    CHECK(tutti_process_concurrency(process) == 7);
    worker = tutti_worker_take(process);
    CHECK(worker != NULL && tutti_worker_take(process) == NULL);
    CHECK(!tutti_worker_must_stop(worker));
    tutti_worker_ready(worker);
    tutti_process_ready(process);
    tutti_process_fail(process, "too late", "it is ready");
    exchange = tutti_worker_next(worker);
    serve(exchange);
    exchange = tutti_worker_next(worker);
    tutti_exchange_abort(exchange);
    tutti_process_stop();
    if (tutti_worker_next(worker) != NULL || !tutti_worker_must_stop(worker))
        return 2;
    tutti_worker_free(worker);
    tutti_process_close(process);
    return 0;
}
