/* Early hints go before an answer, and a trailer field with a sum of the body goes behind it.
 *
 *   cc -o hints hints.c -ltutti_worker
 *
 * and in the configuration: {"type": "external", "executable": "/srv/hints"}
 */
#include <stdio.h>
#include <string.h>

#include "tutti_worker.h"

static struct tutti_bytes text(const char *string) {
    struct tutti_bytes bytes = {(const uint8_t *)string, strlen(string)};
    return bytes;
}

static void serve(struct tutti_exchange *exchange) {
    struct tutti_field hint = {text("Link"), text("</a.css>; rel=preload; as=style")};
    /* It names the fields that follow the body: clients of HTTP/1.1 get no others. There is no Content-Length. */
    struct tutti_field head[] = {{text("Content-Type"), text("text/plain")}, {text("Trailer"), text("X-Sum")}};
    struct tutti_field behind = {text("X-Sum"), text("")};
    const char *pieces[] = {"who", "le"};
    char sum[32];
    size_t written = 0, index;
    tutti_response_interim(exchange, 103, &hint, 1);
    /* Here the page is made, which takes its time. */
    tutti_response_start(exchange, 200, head, 2);
    for (index = 0; index < sizeof pieces / sizeof *pieces; index++) {
        size_t length = strlen(pieces[index]);
        if (tutti_response_write(exchange, (const uint8_t *)pieces[index], length, true) < 0) {
            tutti_exchange_abort(exchange);
            return;
        }
        written += length;
    }
    snprintf(sum, sizeof sum, "%zu", written);
    behind.value = text(sum);
    tutti_response_trailers(exchange, &behind, 1);
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
