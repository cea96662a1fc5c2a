/* A Tutti application in C: one thread, one request at a time.
 *
 *   cc -o hello hello.c -ltutti_worker
 *
 * and in the configuration: {"type": "external", "executable": "/srv/hello"}
 */
#include <stdio.h>
#include <string.h>

#include "tutti_worker.h"

static struct tutti_bytes text(const char *string) {
    struct tutti_bytes bytes = {(const uint8_t *)string, strlen(string)};
    return bytes;
}

static void serve(struct tutti_exchange *exchange) {
    struct tutti_bytes path = tutti_request_text(exchange, TUTTI_PATH);
    char body[256];
    int length = snprintf(body, sizeof body, "Hello from C: %s\n", (const char *)path.data);
    struct tutti_field fields[] = {{text("Content-Type"), text("text/plain; charset=utf-8")}};
    if (length < 0) {
        tutti_exchange_abort(exchange);
        return;
    }
    if ((size_t)length >= sizeof body)
        length = sizeof body - 1;
    tutti_response_start(exchange, 200, fields, 1);
    tutti_response_write(exchange, (const uint8_t *)body, (size_t)length, true);
    tutti_exchange_finish(exchange);
}

int main(void) {
    int32_t status;
    struct tutti_process *process = tutti_process_open(&status);
    struct tutti_worker *worker;
    struct tutti_exchange *exchange;
    if (process == NULL) {
        fputs("run me as an application of Tutti\n", stderr);
        return 1;
    }
    worker = tutti_worker_take(process);
    tutti_worker_ready(worker);
    tutti_process_ready(process);
    while ((exchange = tutti_worker_next(worker)) != NULL)
        serve(exchange);
    tutti_worker_free(worker);
    tutti_process_close(process);
    return 0;
}
