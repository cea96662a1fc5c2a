/* The application of the language contract (`tests/e2e/tests/contract.rs`) in C. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "tutti_worker.h"

static struct tutti_bytes text(const char *string) {
    struct tutti_bytes bytes = {(const uint8_t *)string, strlen(string)};
    return bytes;
}

static void pause_for(long milliseconds) {
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, NULL);
}

/* True if all of it was taken. */
static bool write_text(struct tutti_exchange *exchange, const char *string) {
    return tutti_response_write(exchange, (const uint8_t *)string, strlen(string), true) >= 0;
}

static void answer(struct tutti_exchange *exchange, const char *string) {
    struct tutti_field type = {text("Content-Type"), text("text/plain")};
    tutti_response_start(exchange, 200, &type, 1);
    write_text(exchange, string);
    tutti_exchange_finish(exchange);
}

static void hello(struct tutti_exchange *exchange) {
    answer(exchange, "Hello from C\n");
}

static void give_up(struct tutti_exchange *exchange, const char *reason) {
    fprintf(stderr, "%s\n", reason);
    tutti_exchange_abort(exchange);
}

/* The body as it comes. */
static void body(struct tutti_exchange *exchange) {
    uint8_t piece[8192];
    ptrdiff_t count;
    while ((count = tutti_body_read(exchange, piece, sizeof piece, true)) > 0) {
        /* The client may be seen to have gone here already. */
        count = tutti_response_write(exchange, piece, (size_t)count, true);
        if (count < 0)
            break;
        tutti_response_flush(exchange);
    }
    if (count < 0)
        give_up(exchange, "cut short");
    else
        tutti_exchange_finish(exchange);
}

static void head(struct tutti_exchange *exchange) {
    struct tutti_field fields[] = {
        {text("Set-Cookie"), text("a=1")},
        {text("Set-Cookie"), text("b=2")},
        {text("X-Empty"), text("")},
        {text("X-Back"), text("")},
    };
    struct tutti_field field;
    char seen[64] = "";
    size_t index;
    tutti_request_find(exchange, (const uint8_t *)"X-Long", 6, &fields[3].value);
    for (index = 0; tutti_request_field(exchange, index, &field); index++) {
        if (strcasecmp((const char *)field.name.data, "X-Seen") == 0) {
            size_t length = strlen(seen);
            snprintf(seen + length, sizeof seen - length, "%s%s", length == 0 ? "" : ", ", (const char *)field.value.data);
        }
    }
    tutti_response_start(exchange, 201, fields, 4);
    write_text(exchange, seen);
    tutti_exchange_finish(exchange);
}

static void hints(struct tutti_exchange *exchange) {
    struct tutti_field hint = {text("Link"), text("</a.css>; rel=preload; as=style")};
    struct tutti_field announced = {text("Trailer"), text("X-Sum")};
    struct tutti_field sum = {text("X-Sum"), text("5")};
    tutti_response_interim(exchange, 103, &hint, 1);
    tutti_response_start(exchange, 200, &announced, 1);
    write_text(exchange, "whole");
    tutti_response_trailers(exchange, &sum, 1);
    tutti_exchange_finish(exchange);
}

static void slow(struct tutti_exchange *exchange) {
    char go[4096];
    snprintf(go, sizeof go, "%s/go", getenv("WORK"));
    write_text(exchange, "first\n");
    tutti_response_flush(exchange);
    while (access(go, F_OK) != 0)
        pause_for(5);
    write_text(exchange, "second\n");
    tutti_exchange_finish(exchange);
}

static void endless(struct tutti_exchange *exchange) {
    static uint8_t piece[65536];
    memset(piece, 'x', sizeof piece);
    while (tutti_response_write(exchange, piece, sizeof piece, true) >= 0)
        continue;
    tutti_exchange_abort(exchange);
}

static void fails(struct tutti_exchange *exchange) {
    give_up(exchange, "asked to fail");
}

static void ends(struct tutti_exchange *exchange) {
    (void)exchange;
    kill(getpid(), SIGKILL);
}

static void hangs(struct tutti_exchange *exchange) {
    (void)exchange;
    for (;;)
        pause();
}

static void grows(struct tutti_exchange *exchange) {
    static uint8_t *grown;
    size_t size = 200 << 20;
    free(grown);
    grown = malloc(size);
    if (grown != NULL)
        memset(grown, 'x', size);
    pause_for(500);
    answer(exchange, "grown");
}

/* One short text after the other, until the client closes. */
static void talk(struct tutti_exchange *exchange) {
    struct tutti_message *message;
    bool is_closed = false;
    tutti_response_start(exchange, 101, NULL, 0);
    tutti_response_flush(exchange);
    while (!is_closed && tutti_message_next(exchange, true, &message) == TUTTI_OK) {
        struct tutti_bytes said = tutti_message_bytes(message);
        uint32_t opcode = tutti_message_opcode(message);
        is_closed = opcode == TUTTI_MESSAGE_CLOSE;
        if (is_closed) {
            tutti_message_send(exchange, opcode, said.data, said.length, true);
        } else {
            char heard[256];
            int length = snprintf(heard, sizeof heard, "heard: %.*s", (int)said.length, (const char *)said.data);
            tutti_message_send(exchange, opcode, (const uint8_t *)heard, (size_t)length, true);
        }
        tutti_message_free(message);
    }
    if (is_closed)
        tutti_exchange_finish(exchange);
    else
        tutti_exchange_abort(exchange);
}

static const struct {
    const char *path;
    void (*serve)(struct tutti_exchange *);
} pages[] = {
    {"/", hello}, {"/body", body}, {"/head", head}, {"/hints", hints}, {"/slow", slow}, {"/endless", endless},
    {"/fails", fails}, {"/ends", ends}, {"/hangs", hangs}, {"/grows", grows}, {"/talk", talk},
};

static void serve(struct tutti_exchange *exchange) {
    const char *path = (const char *)tutti_request_text(exchange, TUTTI_PATH).data;
    size_t index;
    for (index = 0; index < sizeof pages / sizeof *pages; index++) {
        if (strcmp(path, pages[index].path) == 0) {
            pages[index].serve(exchange);
            return;
        }
    }
    tutti_exchange_abort(exchange);
}

int main(void) {
    struct tutti_process *process = tutti_process_open(NULL);
    struct tutti_worker *worker = tutti_worker_take(process);
    struct tutti_exchange *exchange;
    tutti_worker_ready(worker);
    tutti_process_ready(process);
    while ((exchange = tutti_worker_next(worker)) != NULL)
        serve(exchange);
    tutti_worker_free(worker);
    tutti_process_close(process);
    return 0;
}
